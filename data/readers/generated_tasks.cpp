// SPDX-License-Identifier: BSD-3-Clause
#include "data/readers/generated_tasks.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "data/io/error.h"
#include "data/io/random.h"
#include "data/readers/toy_language.h"
#include "data/text/vocabulary.h"

namespace tapestry {

using namespace toy;

namespace {

using Sequence = std::vector<std::int32_t>;

/// One share is for validation and one for testing, see Split.
constexpr std::uint64_t number_of_shares = 20;

/// After this many consecutive draws without a new sentence, the task is assumed to have no more
/// sentences.
constexpr std::size_t max_fruitless_draws = 100'000;

[[noreturn]] void reject_size(std::string_view option, std::size_t wanted, std::size_t found,
                              const GeneratedTask& task) {
  throw DataError(
      fmt::format("data.{}: the task generated {} different sentences for this part, expected {}",
                  option, found, wanted),
      fmt::format("lower data.{}{}", option,
                  task.more_sentences.empty() ? "" : " or " + task.more_sentences));
}

/// The sequence that must differ between examples: the source, or the target if there is no source.
const Sequence& distinct_sequence(const Example& pair) {
  return pair.source.empty() ? pair.target : pair.source;
}

Example draw_training_pair(const GeneratedOptions& options, const GeneratedTask& task,
                           std::size_t index) {
  RandomDraws random(options.seed, DrawPurpose::training_example, index);
  for (std::size_t draw = 0; draw < max_fruitless_draws; ++draw) {
    Example pair = task.draw(random);
    if (assign_split(distinct_sequence(pair), options.seed) == Split::train) return pair;
  }
  reject_size("train_size", options.train_size, 0, task);
}

/// Fills a held-out set with `wanted` different pairs.
class HeldOutPart {
 public:
  HeldOutPart(Split split, std::size_t wanted, std::vector<Example>& pairs)
      : split_(split), wanted_(wanted), pairs_(pairs) {
    pairs_.clear();
  }

  bool full() const { return pairs_.size() == wanted_; }

  /// Adds a pair if its sentence belongs to this set and is new; returns whether it was added.
  bool try_add(Example& pair, Split split) {
    if (split != split_ || full() || !seen_.insert(distinct_sequence(pair)).second) return false;
    pairs_.push_back(std::move(pair));
    return true;
  }

 private:
  Split split_;
  std::size_t wanted_;
  std::vector<Example>& pairs_;
  std::set<Sequence> seen_;
};

void draw_held_out_pairs(const GeneratedOptions& options, const GeneratedTask& task,
                         Corpus& corpus) {
  HeldOutPart validation(Split::validation, options.validation_size, corpus.validation);
  HeldOutPart test(Split::test, options.test_size, corpus.test);

  std::size_t fruitless_draws = 0;
  for (std::uint64_t index = 0; !validation.full() || !test.full(); ++index) {
    RandomDraws random(options.seed, DrawPurpose::held_out_example, index);
    Example pair = task.draw(random);
    const Split split = assign_split(distinct_sequence(pair), options.seed);
    const bool added = validation.try_add(pair, split) || test.try_add(pair, split);
    fruitless_draws = added ? 0 : fruitless_draws + 1;
    if (fruitless_draws == max_fruitless_draws) break;
  }
  if (!validation.full()) {
    reject_size("validation_size", options.validation_size, corpus.validation.size(), task);
  }
  if (!test.full()) reject_size("test_size", options.test_size, corpus.test.size(), task);
}

}  // namespace

Split assign_split(std::span<const std::int32_t> source, std::uint64_t seed) {
  const std::uint64_t hash =
      XXH3_64bits_withSeed(source.data(), source.size() * sizeof(std::int32_t), seed);
  switch (hash % number_of_shares) {
    case 0:
      return Split::validation;
    case 1:
      return Split::test;
    default:
      return Split::train;
  }
}

void draw_splits(const GeneratedOptions& options, const GeneratedTask& task, Corpus& corpus) {
  if (options.train_size == 0) {
    throw DataError("data.train_size: found 0, expected at least 1",
                    "set data.train_size to the number of sentences to train on");
  }
  draw_held_out_pairs(options, task, corpus);
  corpus.train.clear();
  corpus.train.reserve(options.train_size);
  for (std::size_t i = 0; i < options.train_size; ++i) {
    corpus.train.push_back(draw_training_pair(options, task, i));
  }
}

namespace {

void require_at_least(const char* option, std::size_t value, std::size_t min) {
  if (value >= min) return;
  throw DataError(fmt::format("data.{}: found {}, expected at least {}", option, value, min),
                  fmt::format("set data.{} to {} or more", option, min));
}

void check_options(const SymbolOptions& options) {
  require_at_least("num_symbols", options.num_symbols, 2);
  require_at_least("min_length", options.min_length, 1);
  require_at_least("max_length", options.max_length, options.min_length);
}

Sequence draw_sequence(const SymbolOptions& options, RandomDraws& random) {
  const std::size_t different_lengths = options.max_length - options.min_length + 1;
  Sequence sequence(options.min_length + random.below(different_lengths));
  for (std::int32_t& id : sequence) {
    id = first_word_id + static_cast<std::int32_t>(random.below(options.num_symbols));
  }
  return sequence;
}

/// target  maps a source to its target
Corpus make_symbol_task(const SymbolOptions& symbols, const GeneratedOptions& sizes,
                        Sequence (*target)(Sequence source)) {
  check_options(symbols);
  Corpus corpus;
  corpus.source_vocabulary = symbol_vocabulary(symbols.num_symbols);
  corpus.target_vocabulary = corpus.source_vocabulary;
  const auto draw = [&](RandomDraws& random) {
    const Sequence source = draw_sequence(symbols, random);
    return Example{source, target(source)};
  };
  draw_splits(sizes, {.draw = draw, .more_sentences = "raise data.max_length or data.num_symbols"},
              corpus);
  return corpus;
}

}  // namespace

Vocabulary symbol_vocabulary(std::size_t num_symbols) {
  constexpr std::size_t letters = 26;
  Tokens symbols;
  for (std::size_t k = 0; k < num_symbols; ++k) {
    symbols.push_back(num_symbols <= letters ? std::string(1, static_cast<char>('a' + k))
                                             : fmt::format("s{}", k));
  }
  return Vocabulary(symbols);
}

Corpus make_copy_task(const SymbolOptions& symbols, const GeneratedOptions& sizes) {
  return make_symbol_task(symbols, sizes, [](Sequence source) { return source; });
}

Corpus make_reverse_task(const SymbolOptions& symbols, const GeneratedOptions& sizes) {
  return make_symbol_task(symbols, sizes, [](Sequence source) {
    std::ranges::reverse(source);
    return source;
  });
}

Corpus make_sort_task(const SymbolOptions& symbols, const GeneratedOptions& sizes) {
  return make_symbol_task(symbols, sizes, [](Sequence source) {
    std::ranges::sort(source);
    return source;
  });
}

namespace {

Vocabulary make_vocabulary(const Tokens& words) {
  WordCounter counter;
  counter.add(words);
  return counter.vocabulary();
}

/// The ids of <bos> and the words.
Sequence encode_with_bos(const Vocabulary& vocabulary, const Tokens& words) {
  Sequence ids = {bos_id};
  const auto encoded = vocabulary.encode(words);
  ids.insert(ids.end(), encoded.begin(), encoded.end());
  return ids;
}

Sentence draw_singular_sentence(RandomDraws& random) {
  Sentence sentence = draw_sentence(random);
  while (sentence.subject.number != Number::singular) sentence = draw_sentence(random);
  return sentence;
}

/// The noun with its gender changed.
Noun with_other_gender(const Noun& noun) {
  Noun wrong = noun;
  wrong.gender = noun.gender == Gender::masculine ? Gender::feminine : Gender::masculine;
  return wrong;
}

}  // namespace

Corpus make_toy_translation(const GeneratedOptions& options) {
  Corpus corpus;
  corpus.source_vocabulary = make_vocabulary(french_words());
  corpus.target_vocabulary = make_vocabulary(english_words());
  const auto draw = [&corpus](RandomDraws& random) {
    const Sentence sentence = draw_sentence(random);
    return Example{corpus.source_vocabulary.encode(french(sentence)),
                   corpus.target_vocabulary.encode(english(sentence))};
  };
  draw_splits(options, {.draw = draw}, corpus);
  return corpus;
}

Corpus make_toy_sentences(const GeneratedOptions& options) {
  Corpus corpus;
  corpus.source_vocabulary = corpus.target_vocabulary = make_vocabulary(french_words());
  const auto draw = [&corpus](RandomDraws& random) {
    Sequence ids = encode_with_bos(corpus.target_vocabulary, french(draw_sentence(random)));
    ids.push_back(eos_id);
    return Example{.target = std::move(ids)};
  };
  draw_splits(options, {.draw = draw}, corpus);
  return corpus;
}

Corpus make_toy_agreement(const GeneratedOptions& options) {
  Corpus corpus;
  corpus.source_vocabulary = make_vocabulary(french_words());
  corpus.target_vocabulary = Vocabulary({"right", "wrong"});
  const auto draw = [&corpus](RandomDraws& random) {
    Sentence sentence = draw_singular_sentence(random);
    const Noun wrong = with_other_gender(*sentence.subject.noun);
    const bool right = random.one_in(2);
    if (!right) sentence.subject.noun = &wrong;
    return Example{encode_with_bos(corpus.source_vocabulary, french(sentence)),
                   {corpus.target_vocabulary.id(right ? "right" : "wrong")}};
  };
  draw_splits(options, {.draw = draw}, corpus);
  return corpus;
}

}  // namespace tapestry
