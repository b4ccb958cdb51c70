#include "data/corpus_file.h"

#include <fmt/format.h>

#include <utility>

#include "data/binary_file.h"
#include "data/open_file.h"
#include "data/text_file.h"

namespace tapestry {

namespace {

/// What read(path) returns; where the file cannot be opened, the error says which key named it.
auto named_by(const std::string& key, const std::filesystem::path& path, auto read) {
  try {
    return read(path);
  } catch (const UnopenedFile& error) {
    throw DataError(error.what(), fmt::format("{} (the key is {})", error.hint(), key));
  }
}

}  // namespace

std::vector<std::string> read_corpus_file(const std::string& key, const std::filesystem::path& path,
                                          Corpus& corpus) {
  TextFile file = named_by(key, path, read_text_file);
  corpus.files.push_back({key, path, file.bytes, file.digest});
  return std::move(file.lines);
}

std::vector<std::byte> read_corpus_bytes(const std::string& key, const std::filesystem::path& path,
                                         Corpus& corpus) {
  BinaryFile file = named_by(key, path, read_binary_file);
  corpus.files.push_back({key, path, file.bytes.size(), file.digest});
  return std::move(file.bytes);
}

}  // namespace tapestry
