#include "data/corpus_file.h"

#include <utility>

#include "data/text_file.h"

namespace tapestry {

std::vector<std::string> read_corpus_file(const std::string& key, const std::filesystem::path& path,
                                          Corpus& corpus) {
  TextFile file = read_text_file(path);
  corpus.files.push_back({key, path, file.bytes, file.digest});
  return std::move(file.lines);
}

}  // namespace tapestry
