#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "data/corpus.h"

namespace tapestry {

/// The lines of a text file that a corpus is made from, which `corpus` then knows as its file of
/// this key of the config.
///
/// throws  DataError, see read_text_file(), with the key where the file cannot be opened.
std::vector<std::string> read_corpus_file(const std::string& key, const std::filesystem::path& path,
                                          Corpus& corpus);

/// The same for the bytes of a file that is no text.
std::vector<std::byte> read_corpus_bytes(const std::string& key, const std::filesystem::path& path,
                                         Corpus& corpus);

}  // namespace tapestry
