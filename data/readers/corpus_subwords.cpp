#include "data/readers/corpus_subwords.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "data/corpus.h"
#include "data/io/utf8.h"

namespace tapestry {
namespace {

std::shared_ptr<const SubwordModel> read_subwords(const SubwordOptions& options, SubwordSide side,
                                                  const std::filesystem::path& base) {
  const bool of_source = side == SubwordSide::source;
  const std::filesystem::path path = base / (of_source ? options.file : options.target_file);
  Corpus unused;
  const std::vector<std::byte> bytes =
      read_corpus_bytes(of_source ? "data.subword_file" : "data.target_subword_file", path, unused);
  return std::make_shared<const SubwordModel>(
      std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()),
      escaped(path.native()));
}

}  // namespace

std::shared_ptr<const SubwordModel> make_subwords(TextSample sentences, const WordOptions& words,
                                                  SubwordSide side,
                                                  const std::filesystem::path& base,
                                                  const std::string& place,
                                                  std::vector<std::string>& notes) {
  if (words.subwords.kind == SubwordKind::file) return read_subwords(words.subwords, side, base);
  if (sentences.is_partial()) {
    notes.push_back(fmt::format("subwords of {}: learned from {} of {} sentences, drawn at random",
                                place, sentences.kept(), sentences.added()));
  }
  std::vector<std::string> text = std::move(sentences).take();
  if (words.lowercase) {
    for (std::string& sentence : text) sentence = to_lowercase(sentence);
  }
  return train_subwords(text, words.subwords, place);
}

}  // namespace tapestry
