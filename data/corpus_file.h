#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/corpus.h"

namespace tapestry {

/// The lines of a text file that a corpus is made from, which `corpus` then knows as its file of
/// this key of the config.
///
/// throws  DataError, see read_text_file().
std::vector<std::string> read_corpus_file(const std::string& key, const std::filesystem::path& path,
                                          Corpus& corpus);

}  // namespace tapestry
