// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cstddef>

#include "data/io/text_file.h"
#include "data/io/utf8.h"
#include "data/readers/labelled_text.h"
#include "tests/fuzz/fuzz.h"

namespace tapestry::fuzz {
namespace {

/// The number of lines that are not blank.
std::size_t count_filled(const std::filesystem::path& path) {
  const auto lines = read_text_file(path).lines;
  return lines.size() - static_cast<std::size_t>(std::ranges::count_if(lines, is_blank));
}

void require_named(std::int32_t label, const Corpus& corpus) {
  require(label >= first_word_id && !corpus.target_vocabulary.token(label).empty(),
          "a label has a name");
}

}  // namespace

/// Input: a file with a label and a sentence per line.
void feed_labels(std::string_view bytes) {
  const auto path = write_input(bytes);
  const Corpus corpus = load_labelled_text({.train_text = path.string()}, {}, "/");
  for (const Example& example : corpus.train) {
    require(example.source.size() >= 2 && example.source.front() == bos_id,
            "a sentence is <bos> and at least one word");
    require(std::all_of(example.source.begin() + 1, example.source.end(),
                        [](std::int32_t id) { return id >= first_word_id; }),
            "each word of the text is in its vocabulary");
    require(example.target.size() == 1, "a sentence has one class");
    require_named(example.target.front(), corpus);
  }
  require(corpus.target_vocabulary.size() >= first_word_id + 2, "there are at least two classes");
  require(corpus.train.size() == count_filled(path), "only blank lines are left out");
}

/// Input: a file with a token and a label per line.
void feed_tags(std::string_view bytes) {
  const auto path = write_input(bytes);
  const Corpus corpus = load_tagged_text({.train_text = path.string()}, {}, "/");
  std::size_t tokens = 0;
  for (const Example& example : corpus.train) {
    require(!example.source.empty(), "a sentence has a token");
    require(example.target.size() == example.source.size(), "each token has a label");
    require(
        std::ranges::all_of(example.source,
                            [](std::int32_t id) { return id == unk_id || id >= first_word_id; }),
        "each token is a word of the vocabulary, or unknown if the text spells a special symbol");
    for (const std::int32_t label : example.target) require_named(label, corpus);
    tokens += example.source.size();
  }
  require(tokens == count_filled(path), "only blank lines are left out");
}

}  // namespace tapestry::fuzz
