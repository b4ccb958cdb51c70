// SPDX-License-Identifier: BSD-3-Clause
#include "train/tasks/task_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/example_file.h"
#include "data/io/error.h"
#include "data/io/random.h"
#include "data/readers/training_set.h"
#include "data/text/subword_sampler.h"
#include "train/tasks/task.h"

namespace tapestry {
namespace {

/// A part of a corpus, and its name in notes and in messages about generated examples.
struct Part {
  std::vector<Example> Corpus::*examples;
  ExampleLines Corpus::*lines;
  const char* name;
  const char* adjective;
};

constexpr std::array parts{
    Part{&Corpus::train, &Corpus::train_lines, "train", "training"},
    Part{&Corpus::validation, &Corpus::validation_lines, "validation", "validation"},
    Part{&Corpus::test, &Corpus::test_lines, "test", "test"}};

/// The maximum number of tokens in an example of a part.
TokenLimit part_token_limit(const Part& part, const Config& config) {
  const std::size_t of_batch = config.train.batch_tokens;
  const bool in_batches = part.examples == &Corpus::train && of_batch != 0;
  if (in_batches && of_batch < config.model.max_length) {
    return {.tokens = of_batch, .key = "train.batch_tokens"};
  }
  return {.tokens = config.model.max_length, .key = "model.max_length"};
}

/// The examples of a part, without weights.
Examples part_examples(const Corpus& corpus, const Part& part) {
  return part.examples == &Corpus::train ? corpus.stored_training() : corpus.*part.examples;
}

/// The place of a stored example, such as "de.txt:17"; nullopt if the example is not a line of a
/// text.
std::optional<std::string> find_place(const Corpus& corpus, const Part& part, std::size_t index,
                                      bool in_target) {
  const ExampleLines& lines = corpus.*part.lines;
  const bool in_training = part.examples == &Corpus::train;
  const auto place = [&](const std::string& source, const std::string& target, std::size_t line) {
    return fmt::format("{}:{}", in_target ? target : source, line);
  };
  std::size_t line = index < lines.lines.size() ? lines.lines[index] : 0;
  if (in_training && corpus.train_file) line = corpus.train_file->line(index);
  if (line == 0) return std::nullopt;
  std::size_t before = 0;
  for (std::size_t i = 0; in_training && i < corpus.train_line_files.size(); ++i) {
    before += corpus.train_file ? corpus.train_file->parts()[i] : corpus.train_weights[i].count;
    const LineFiles& files = corpus.train_line_files[i];
    if (index < before) return place(files.source, files.target, line);
  }
  return place(lines.source_file, lines.target_file, line);
}

/// The error for an example whose longest side has more tokens than part_token_limit(); nullopt if
/// it fits.
///
/// place   place(in_target) returns the place of the example's target or source
/// needed  the number of tokens in the hint; set to the tokens of the example if they are more
template <class Place>
std::optional<DataError> find_misfit(const Part& part, const ExampleLengths& example,
                                     const Config& config, const Place& place,
                                     std::size_t& needed) {
  const Task& task = find_task(config);
  const auto [max_tokens, key] = part_token_limit(part, config);
  const std::size_t tokens = longest_side(example, task.layout());
  if (tokens <= max_tokens) return std::nullopt;
  needed = std::max(needed, tokens);
  const TaskWords words = task.words(config);
  const bool in_target = task.layout().source_length(example) < tokens;
  const bool in_training = part.examples == &Corpus::train;
  return DataError(fmt::format("{}: found {} tokens {}, expected at most {} ({})", place(in_target),
                               tokens, words.tokens, max_tokens, key),
                   fmt::format("set {} to {} or more{}", key, needed,
                               in_training ? words.long_example_hint : ""));
}

/// Overload for a stored example.
std::optional<DataError> find_misfit(const Corpus& corpus, const Part& part, std::size_t index,
                                     const Config& config, std::size_t& needed) {
  const auto place = [&](bool in_target) {
    return find_place(corpus, part, index, in_target)
        .value_or(fmt::format("{} {} {}", part.adjective, find_task(config).words(config).example,
                              index + 1));
  };
  return find_misfit(part, part_examples(corpus, part).lengths(index), config, place, needed);
}

/// Overload for an example from a line that is being read.
std::optional<DataError> find_misfit(std::string_view part, const ExampleLengths& example,
                                     const LineFiles& files, std::size_t line, const Config& config,
                                     std::size_t& needed) {
  const auto place = [&](bool in_target) {
    return fmt::format("{}:{}", in_target ? files.target : files.source, line);
  };
  return find_misfit(*std::ranges::find(parts, part, &Part::name), example, config, place, needed);
}

/// Loads the corpus. Errors about bad lines include the examples that do not fit the model.
Corpus load_counting_misfits(const Config& config, const FixedVocabularies* fixed) {
  DataOptions options = config.data;
  options.training.find_too_long = [&config, needed = std::size_t{0}](
                                       std::string_view part, const ExampleLengths& example,
                                       const LineFiles& files, std::size_t line) mutable {
    return find_misfit(part, example, files, line, config, needed);
  };
  return load_corpus(options, fixed);
}

/// The indices of the stored examples of a part that do not fit the model. Adds their errors to
/// `bad`.
std::vector<std::size_t> find_misfits(const Corpus& corpus, const Part& part, const Config& config,
                                      BadLines& bad) {
  std::vector<std::size_t> misfits;
  const std::size_t all = part_examples(corpus, part).size();
  std::size_t needed = 0;
  for (std::size_t i = 0; i < all; ++i) {
    const auto misfit = find_misfit(corpus, part, i, config, needed);
    if (!misfit) continue;
    bad.add(*misfit);
    misfits.push_back(i);
  }
  return misfits;
}

/// Removes the values at these ascending indices; ignores indices beyond the last value.
template <class T>
void remove_at(const std::vector<std::size_t>& indices, std::vector<T>& values) {
  std::size_t index = 0;
  auto next = indices.begin();
  std::erase_if(values, [&](const T&) {
    const bool found = next != indices.end() && *next == index;
    if (found) ++next;
    ++index;
    return found;
  });
}

/// Subtracts the training examples at these ascending indices from the example counts of their
/// corpora.
void count_without(const std::vector<std::size_t>& indices,
                   std::vector<WeightedExamples>& corpora) {
  std::size_t end = 0;  // end of a corpus, including the removed examples
  auto next = indices.begin();
  for (WeightedExamples& corpus : corpora) {
    end += corpus.count;
    for (; next != indices.end() && *next < end; ++next) --corpus.count;
  }
}

/// Removes the examples that do not fit the model. The notes state their number.
void skip_misfits(Corpus& corpus, const Part& part, const Config& config) {
  const bool in_training = part.examples == &Corpus::train;
  const std::size_t all = part_examples(corpus, part).size();
  BadLines bad(part.name, OnBadLine::skip);
  const std::vector<std::size_t> misfits = find_misfits(corpus, part, config, bad);
  bad.finish(all, all - misfits.size(), corpus.notes);
  if (misfits.empty()) return;
  if (in_training) count_without(misfits, corpus.train_weights);
  if (in_training && corpus.train_file) {
    if (misfits.size() == all) return corpus.clear_training();
    corpus.train_kept.resize(all);
    std::iota(corpus.train_kept.begin(), corpus.train_kept.end(), std::uint32_t{0});
    remove_at(misfits, corpus.train_kept);
    return;
  }
  remove_at(misfits, corpus.*part.examples);
  remove_at(misfits, (corpus.*part.lines).lines);
  remove_at(misfits, (corpus.*part.lines).target_texts);
}

}  // namespace

BatchRules batch_rules(const Config& config, std::size_t vocabulary, std::uint64_t epoch) {
  return {.layout = find_task(config).layout(),
          .vocabulary = vocabulary,
          .seed = config.train.seed,
          .epoch = epoch};
}

BatchRules training_rules(const Config& config, const Corpus& corpus, std::uint64_t epoch) {
  BatchRules rules = batch_rules(config, corpus.target_vocabulary.size(), epoch);
  if (ExampleTransform transform = subword_regularization(config, corpus)) {
    rules.transform = std::make_shared<const ExampleTransform>(std::move(transform));
  }
  return rules;
}

Batch inference_batch(const Task& task, const Example& example) {
  return make_batch({example}, std::array<std::size_t, 1>{0}, {.layout = task.inference_layout()});
}

EvaluationSet validation_set(const Corpus& corpus, const TextCodec& codec, WorkShare share) {
  return {.examples = corpus.validation,
          .target_texts = corpus.validation_lines.target_texts,
          .codec = codec,
          .share = std::move(share)};
}

EvaluationSet test_set(const Corpus& corpus, const TextCodec& codec) {
  return {.examples = corpus.test, .target_texts = corpus.test_lines.target_texts, .codec = codec};
}

BatchLengths batch_lengths(const Config& config) {
  const bool mixed = config.model.normalization == Normalization::batch_norm;
  return mixed ? BatchLengths::mixed : BatchLengths::alike;
}

BatchSchedule make_batch_schedule(const Corpus& corpus, const Config& config) {
  const TrainOptions& train = config.train;
  if (train.batch_tokens == 0) {
    return {corpus.training(), train.batch_size, train.seed, batch_lengths(config),
            lengths_in_epoch(config, corpus)};
  }
  require_fitting_examples(corpus, config);
  const BatchTokens tokens{.max_tokens = train.batch_tokens, .layout = find_task(config).layout()};
  return {corpus.training(), tokens, train.seed, lengths_in_epoch(config, corpus)};
}

void require_fitting_examples(const Corpus& corpus, const Config& config) {
  const auto kept = [&](const Part& part) {
    const bool some_kept = part.examples == &Corpus::train && !corpus.train_kept.empty();
    std::vector<std::uint32_t> stored =
        some_kept ? corpus.train_kept : std::vector<std::uint32_t>();
    if (some_kept) return stored;
    stored.resize(part_examples(corpus, part).size());
    std::iota(stored.begin(), stored.end(), std::uint32_t{0});
    return stored;
  };
  const RowLayout& layout = find_task(config).layout();
  std::size_t needed = 0;  // over all parts, so that the hint of the first error suits all
  for (const Part& part : parts) {
    const Examples examples = part_examples(corpus, part);
    for (const std::size_t i : kept(part)) {
      needed = std::max(needed, longest_side(examples.lengths(i), layout));
    }
  }
  for (const Part& part : parts) {
    BadLines bad(part.name, OnBadLine::stop);
    const auto stored = kept(part);
    for (const std::size_t i : stored) {
      if (const auto misfit = find_misfit(corpus, part, i, config, needed)) bad.add(*misfit);
    }
    bad.reject_any(stored.size(), stored.size() - bad.count());
  }
}

Corpus load_fitting_corpus(const Config& config, const FixedVocabularies* fixed) {
  if (config.data.on_bad_line == OnBadLine::stop) return load_counting_misfits(config, fixed);
  Corpus corpus = load_corpus(config.data, fixed);
  const auto is_empty = [&](const Part& part) {
    return part.examples == &Corpus::train ? corpus.training().empty()
                                           : (corpus.*part.examples).empty();
  };
  for (const Part& part : parts) {
    if (is_empty(part)) continue;  // its files are not named
    skip_misfits(corpus, part, config);
    if (!is_empty(part)) continue;
    throw DataError(fmt::format("data: found no {} {} that can be used, expected one or more",
                                part.adjective, find_task(config).words(config).examples),
                    "set data.on_bad_line=stop to see why they were skipped");
  }
  return corpus;
}

namespace {

using Sampler = std::shared_ptr<const SubwordSampler>;

/// The two sides of an example use separate random numbers.
enum class Side : std::uint64_t { source = 0, target = 1 };

Sampler make_sampler(const Vocabulary& words, const SubwordSampling& sampling) {
  if (!words.subwords()) return nullptr;
  return std::make_shared<const SubwordSampler>(words, sampling);
}

/// Keeps `max_length` consecutive ids, starting at a uniformly random position. If only the end
/// were cut, the last tokens of windows would be trained less often than the first tokens.
void cut_at_random(std::vector<std::int32_t>& ids, std::size_t max_length, RandomDraws& random) {
  if (ids.size() <= max_length) return;
  const auto begin = static_cast<std::ptrdiff_t>(random.below(ids.size() - max_length + 1));
  ids.erase(ids.begin(), ids.begin() + begin);
  ids.resize(max_length);
}

/// Whether the examples are windows of a text.
bool has_windows(const Config& config) { return data_source(config.data).makes_windows; }

class Regularization {
 public:
  Regularization(const Config& config, const Corpus& corpus, const SubwordSampling& sampling)
      : source_(make_sampler(corpus.source_vocabulary, sampling)),
        target_(make_sampler(corpus.target_vocabulary, sampling)),
        layout_(find_task(config).layout()),
        windows_(has_windows(config)),
        max_length_(part_token_limit(parts[0], config).tokens),
        seed_(config.train.seed) {}

  Example operator()(const Example& example, std::size_t index, std::uint64_t epoch) const {
    Example sampled = example;
    const auto sample = [&](const Sampler& sampler, std::vector<std::int32_t>& ids, Side side) {
      if (!sampler || ids.empty()) return;
      // The key combines seed and epoch, as for masking.
      RandomDraws random(seed_ + (epoch << 32U), DrawPurpose::subword_segmentation,
                         2 * index + static_cast<std::uint64_t>(side));
      const std::size_t before = ids.size();
      ids = (*sampler)(ids, random);
      if (windows_) cut_at_random(ids, before, random);
    };
    sample(source_, sampled.source, Side::source);
    sample(target_, sampled.target, Side::target);
    return longest_side(sampled, layout_) <= max_length_ ? sampled : example;
  }

 private:
  Sampler source_, target_;  ///< null if the side has no subwords
  RowLayout layout_;
  bool windows_;
  std::size_t max_length_;
  std::uint64_t seed_;
};

}  // namespace

ExampleTransform subword_regularization(const Config& config, const Corpus& corpus) {
  const SubwordSampling& sampling = config.data.words.subwords.sampling;
  if (!sampling.active()) return {};
  return Regularization(config, corpus, sampling);
}

LengthsInEpoch lengths_in_epoch(const Config& config, const Corpus& corpus) {
  ExampleTransform sample = subword_regularization(config, corpus);
  if (!sample || has_windows(config)) return {};
  return [sample = std::move(sample), examples = corpus.training()](
             std::size_t index, std::uint64_t epoch) -> ExampleLengths {
    Example decoded;
    return sample(examples.read(index, decoded), index, epoch);
  };
}

}  // namespace tapestry
