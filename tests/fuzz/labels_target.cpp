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
  fuzz::require(example.source.size() >= 2 && example.source.front() == bos_id,
                "a sentence is <bos> and a word or more");
  fuzz::require(std::all_of(example.source.begin() + 1, example.source.end(),
                            [](std::int32_t id) { return id >= first_word_id; }),
                "each word of the text is in its vocabulary");
  fuzz::require(example.target.size() == 1 && example.target.front() >= first_word_id &&
                    !corpus.target_vocabulary.token(example.target.front()).empty(),
                "a sentence has one class, which has a name");
}

}  // namespace

/// Input: a file with a label and a sentence a line.
void tapestry::fuzz::feed(std::string_view bytes) try {
  const MemoryFile file(bytes);
  const Corpus corpus = load_labelled_text({.train_text = file.path()}, {}, "/");
  for (const Example& example : corpus.train) require_sentence(example, corpus);
  require(corpus.target_vocabulary.size() >= first_word_id + 2, "there are two classes or more");
  const auto lines = read_text_file(file.path()).lines;
  const auto blank = static_cast<std::size_t>(std::ranges::count_if(lines, is_blank));
  require(corpus.train.size() == lines.size() - blank, "no line but blank ones is left out");
} catch (const DataError& error) {
  fuzz::require_presentable(error.what());
  fuzz::require_presentable(error.hint());
}
