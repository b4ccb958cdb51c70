#include <algorithm>
#include <cstddef>

#include "data/io/error.h"
#include "data/io/text_file.h"
#include "data/io/utf8.h"
#include "data/readers/labelled_text.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/memory_file.h"

using namespace tapestry;

namespace {

void require_sentence(const Example& example, const Corpus& corpus) {
  fuzz::require(!example.source.empty(), "a sentence has a token");
  fuzz::require(example.target.size() == example.source.size(), "each token has a label");
  fuzz::require(
      std::ranges::all_of(example.source,
                          [](std::int32_t id) { return id == unk_id || id >= first_word_id; }),
      "each token is a word of the vocabulary or, as a special symbol in the text, unknown");
  for (const std::int32_t id : example.target) {
    fuzz::require(id >= first_word_id && !corpus.target_vocabulary.token(id).empty(),
                  "each label has a name");
  }
}

}  // namespace

/// Input: a file with a token and a label a line.
void tapestry::fuzz::feed(std::string_view bytes) try {
  const MemoryFile file(bytes);
  const Corpus corpus = load_tagged_text({.train_text = file.path()}, {}, "/");
  std::size_t tokens = 0;
  for (const Example& example : corpus.train) {
    require_sentence(example, corpus);
    tokens += example.source.size();
  }
  const auto lines = read_text_file(file.path()).lines;
  const auto blank = static_cast<std::size_t>(std::ranges::count_if(lines, is_blank));
  require(tokens == lines.size() - blank, "no line but blank ones is left out");
} catch (const DataError& error) {
  fuzz::require_presentable(error.what());
  fuzz::require_presentable(error.hint());
}
