// SPDX-License-Identifier: BSD-3-Clause
#include "data/readers/generated_corpus.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "data/io/error.h"
#include "data/io/random.h"

namespace tapestry {

namespace {

using Sequence = std::vector<std::int32_t>;

/// One share is for validation and one share is for testing, see Split.
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

/// Fills a held-out set with `wanted` distinct pairs.
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

}  // namespace tapestry
