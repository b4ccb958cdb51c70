// SPDX-License-Identifier: BSD-3-Clause
#include "train/loop/memory_need.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <memory>
#include <numeric>
#include <string_view>
#include <utility>

#include "autograd/kernels/memory.h"
#include "autograd/random.h"
#include "autograd/tape.h"
#include "data/examples.h"
#include "data/text/vocabulary.h"
#include "optim/optimizer.h"
#include "train/base/error.h"
#include "train/base/format.h"
#include "train/inference/evaluator.h"
#include "train/loop/step.h"
#include "train/loop/validator.h"
#include "train/parallel/gradient_tree.h"
#include "train/tasks/task.h"
#include "train/tasks/task_data.h"

namespace tapestry {
namespace {

/// Hint for a model that is too large. A subword file fixes the size of the vocabulary.
std::string smaller_model_hint(const Config& config) {
  const std::string sizes =
      "try a smaller model: model.d_model, model.d_ff, model.num_encoder_layers";
  switch (config.data.words.subwords.kind) {
    case SubwordKind::none:
      return sizes + ", model.num_decoder_layers or data.max_vocabulary";
    case SubwordKind::unigram:
    case SubwordKind::bpe:
      return sizes + ", model.num_decoder_layers or data.vocabulary_size";
    case SubwordKind::file:
      break;
  }
  return sizes + ", model.num_decoder_layers or another data.subword_file";
}

constexpr const char* smaller_batch_hint =
    "try a smaller train.batch_size with a larger train.accumulate";
constexpr const char* fewer_tokens_hint =
    "try a smaller train.batch_tokens with a larger train.accumulate";

/// Number of values that the optimizer stores per parameter.
std::uint64_t stored_values(const OptimizerOptions& options) {
  return describe(options.kind).state(options).size();
}

/// Limits of a batch: its number of rows, and the longest side of its examples.
struct BatchBound {
  std::size_t rows;
  std::size_t longest_side;

  bool operator==(const BatchBound&) const = default;
};

constexpr std::size_t any_length = std::numeric_limits<std::size_t>::max();

/// The bounds of all batches of a run. With train.batch_size there is one bound; with
/// train.batch_tokens, the bounds of largest_batches().
std::vector<BatchBound> largest_bounds(const Corpus& corpus, const Config& config) {
  if (config.train.batch_tokens == 0) {
    return {{.rows = std::min(config.train.batch_size, corpus.training().size()),
             .longest_side = any_length}};
  }
  const RowLayout& layout = find_task(config).layout();
  BatchBound max_squares{}, max_tokens{};
  const Examples examples = corpus.training();
  BatchSchedule schedule = make_batch_schedule(corpus, config);
  for (const BatchIndices& batch : schedule.epoch(0)) {
    BatchBound bound{.rows = batch.size(), .longest_side = 1};
    for (const std::size_t i : batch) {
      bound.longest_side = std::max(bound.longest_side, longest_side(examples.lengths(i), layout));
    }
    const auto tokens = [](const BatchBound& b) { return b.rows * b.longest_side; };
    const auto squares = [&](const BatchBound& b) { return tokens(b) * b.longest_side; };
    if (squares(bound) > squares(max_squares)) max_squares = bound;
    if (tokens(bound) > tokens(max_tokens)) max_tokens = bound;
  }
  if (max_squares == max_tokens) return {max_squares};
  return {max_squares, max_tokens};
}

/// The indices of `count` examples for the largest batch of examples with at most `max_tokens` on
/// each side: an example with the longest source, an example with the longest target, and the
/// examples with the most tokens; if `count` is 1, only the example with the most tokens.
std::vector<std::size_t> longest_examples(const Examples& examples, std::size_t count,
                                          std::size_t max_tokens, const RowLayout& layout) {
  std::vector<std::size_t> order(examples.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::erase_if(
      order, [&](std::size_t i) { return longest_side(examples.lengths(i), layout) > max_tokens; });
  const auto move_to_front = [&](std::size_t place, const auto& length) {
    const auto begin = order.begin() + static_cast<std::ptrdiff_t>(place);
    std::iter_swap(begin, std::ranges::max_element(begin, order.end(), {}, [&](std::size_t i) {
                     return length(examples.lengths(i));
                   }));
  };
  const auto tokens = [](const ExampleLengths& example) { return example.source + example.target; };
  if (count == 1) {
    move_to_front(0, tokens);
  } else {
    move_to_front(0, [](const ExampleLengths& example) { return example.source; });
    move_to_front(1, [](const ExampleLengths& example) { return example.target; });
  }
  const auto rest = order.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(count, 2));
  std::ranges::partial_sort(rest, order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
                            std::ranges::greater(),
                            [&](std::size_t i) { return tokens(examples.lengths(i)); });
  order.resize(count);
  return order;
}

/// The rules for batches that are at least as large as the batches of a run. With subword
/// regularization, each example has the longest of its segmentations in a few epochs.
BatchRules bounding_rules(const Config& config, const Corpus& corpus) {
  constexpr std::uint64_t sampled_epochs = 8;
  BatchRules rules = training_rules(config, corpus);
  if (!rules.transform) return rules;
  const auto longest_segmentation = [sample = rules.transform, layout = rules.layout](
                                        const Example& example, std::size_t index, std::uint64_t) {
    Example longest = example;
    for (std::uint64_t epoch = 0; epoch < sampled_epochs; ++epoch) {
      Example sampled = (*sample)(example, index, epoch);
      if (longest_side(sampled, layout) > longest_side(longest, layout)) {
        longest = std::move(sampled);
      }
    }
    return longest;
  };
  rules.transform = std::make_shared<const ExampleTransform>(longest_segmentation);
  return rules;
}

/// The maximum bytes of gradient sums in a process: partial sums that wait for other partial sums,
/// and the parts that all other processes send.
std::uint64_t bytes_of_sums(std::uint64_t gradient, std::size_t micro_batches,
                            std::size_t processes) {
  if (processes == 1) return (std::bit_width(micro_batches) - 1U) * gradient;
  std::uint64_t max_kept = 0, min_sent = std::numeric_limits<std::uint64_t>::max(), all_sent = 0;
  for (std::size_t rank = 0; rank < processes; ++rank) {
    const MicroBatches own = micro_batch_range(rank, processes, micro_batches);
    const std::uint64_t sent = nodes_in(own).size();
    max_kept = std::max<std::uint64_t>(max_kept, count_kept_nodes(own));
    min_sent = std::min(min_sent, sent);
    all_sent += sent;
  }
  return max_kept * gradient + (all_sent - min_sent) * (gradient / processes);
}

/// The peak bytes while checkpoints are averaged: file and arrays of one checkpoint, and in
/// CheckpointAverage the sums in float64 and the parameters.
std::uint64_t bytes_of_average(std::uint64_t checkpoint, std::uint64_t values,
                               std::uint64_t bytes_per_value) {
  return 2 * checkpoint + values * (sizeof(double) + bytes_per_value);
}

/// The maximum number of logits in a validation: for a batch of the validation set, or for a single
/// training example, see training_sample().
std::uint64_t max_logits(const Config& config, const Corpus& corpus, std::size_t vocabulary) {
  std::size_t max_target = 0, max_sample = 0;
  for (const Example& example : corpus.validation) {
    max_target = std::max(max_target, example.target.size() + 1);
  }
  const Examples training = corpus.training();
  for (const std::size_t i : evenly_spaced(training.size(), training_sample_size(config, corpus))) {
    max_sample = std::max(max_sample, training.lengths(i).target + 1);
  }
  const std::uint64_t rows = std::min(config.train.batch_size, corpus.validation.size());
  return std::max(rows * max_target, std::uint64_t{max_sample}) * vocabulary;
}

}  // namespace

MemoryNeed need_of_model(const Config& config, const Corpus& corpus, std::size_t processes) {
  const NetworkSizes sizes = network_sizes(config, corpus);
  const std::uint64_t number = bytes_per_element(config.train.dtype);
  const ValueCount count = count_values(network_maker(config, sizes));
  const std::uint64_t parameters = number * count.parameters;
  const std::uint64_t copies =
      stored_values(config.optimizer) + (config.train.ema_decay > 0.0 ? 1 : 0);
  const std::uint64_t with_moments = (1 + copies) * parameters;
  const std::uint64_t shard = copies * parameters / processes;
  const std::uint64_t sums = bytes_of_sums(parameters, config.train.accumulate, processes);
  // While the created values are moved next to the gradients, memory holds them twice, in addition
  // to the gradients: three times the parameters.
  return {
      .state = std::max(2 * parameters + shard + sums, 3 * parameters) + number * count.constants,
      .validation = number * max_logits(config, corpus, sizes.target),
      .saving = with_moments + with_moments / 8,
      .average = config.train.average_last == 0
                     ? 0
                     : bytes_of_average(with_moments, count.parameters, number)};
}

void require_memory_for_model(const Config& config, const Corpus& corpus,
                              const AvailableMemory& available, std::size_t processes) {
  const std::uint64_t need = need_of_model(config, corpus, processes).state;
  if (need <= available.total) return;
  throw MemoryError(
      fmt::format(
          "memory: {} parameters need {} with their gradients and the optimizer's moments, "
          "found {}{}",
          format_count(
              count_values(network_maker(config, network_sizes(config, corpus))).parameters),
          format_bytes(need), format_bytes(available.total),
          available.bound.empty() ? " in this machine" : fmt::format(" ({})", available.bound)),
      smaller_model_hint(config));
}

Batch largest_batch(const Examples& examples, std::size_t batch_size, const BatchRules& rules) {
  const std::size_t rows = std::min(batch_size, examples.size());
  return make_batch(examples, longest_examples(examples, rows, any_length, rules.layout), rules);
}

std::vector<Batch> largest_batches(const Corpus& corpus, const Config& config) {
  const BatchRules rules = bounding_rules(config, corpus);
  std::vector<Batch> batches;
  for (const BatchBound& bound : largest_bounds(corpus, config)) {
    const auto examples =
        longest_examples(corpus.training(), bound.rows, bound.longest_side, rules.layout);
    batches.push_back(make_batch(corpus.training(), examples, rules));
  }
  return batches;
}

std::uint64_t warm_up(const Model& model, const Batch& batch, const Config& config) {
  const std::size_t before = kernels::restart_memory_peak();
  {
    Tape tape;
    tape.backward(
        training_loss(model, batch,
                      {.ignored_id = no_label, .label_smoothing = config.train.label_smoothing},
                      Mode::training(RandomStream(config.train.seed)).with_deferred_averages())
            .mean);
  }
  for (NamedTensor parameter : model.parameters) parameter.tensor.zero_grad();
  return kernels::memory_statistics().peak_bytes_in_use - before;
}

namespace {

/// Rows of the smaller of two measured batches, to extrapolate the memory of a batch of `rows`
/// rows: the smallest rows / 2^k with at least 128 tokens, so that data processed in chunks
/// fill whole chunks. Repeated halving makes the pool round block sizes in the same way as for
/// `rows` rows.
std::size_t sample_rows(std::size_t rows, std::size_t row_tokens) {
  constexpr std::size_t min_tokens = 128;
  std::size_t sample = rows;
  while (sample / 2 >= 1 && sample / 2 * row_tokens >= min_tokens) sample /= 2;
  return sample == rows ? std::max<std::size_t>(1, rows / 2) : sample;
}

/// The bytes of a step with the largest batch within `bound`, extrapolated linearly from two
/// smaller batches.
std::uint64_t estimate_step(const Model& model, const Corpus& corpus, const Config& config,
                            const BatchBound& bound) {
  const BatchRules rules = bounding_rules(config, corpus);
  const auto longest_batch = [&](std::size_t rows) {
    return make_batch(corpus.training(),
                      longest_examples(corpus.training(), rows, bound.longest_side, rules.layout),
                      rules);
  };
  const auto measure_bytes = [&](std::size_t rows) {
    const std::uint64_t bytes = warm_up(model, longest_batch(rows), config);
    kernels::release_unused_memory();  // the run does not use blocks of these sizes
    return bytes;
  };
  const std::size_t rows = bound.rows;
  const Batch longest = longest_batch(std::min<std::size_t>(rows, 2));
  const std::size_t sample =
      sample_rows(rows, std::max(longest.source_length, longest.target_length));
  const std::uint64_t sample_bytes = measure_bytes(sample);
  if (rows < 2 * sample) return sample_bytes;
  const std::uint64_t doubled_bytes = measure_bytes(2 * sample);
  const std::uint64_t added_bytes = doubled_bytes - std::min(sample_bytes, doubled_bytes);
  return doubled_bytes + added_bytes * (rows - 2 * sample) / sample;
}

}  // namespace

/// The bytes of the micro-batches that wait while another micro-batch of the step is computed, and
/// of the micro-batches of the next step, which are prepared in the background.
std::uint64_t bytes_of_waiting_batches(const Corpus& corpus, const Config& config) {
  if (config.train.accumulate == 1) return 0;
  std::uint64_t largest = 0;
  for (const Batch& batch : largest_batches(corpus, config)) {
    const std::uint64_t bytes =
        sizeof(Batch) +
        sizeof(std::int32_t) * (batch.source.size() + batch.input.size() + batch.labels.size()) +
        sizeof(float) * batch.pixels.size() + 3 * sizeof(std::size_t) * batch.rows;
    largest = std::max(largest, bytes);
  }
  return (2 * config.train.accumulate - 1) * largest;
}

std::uint64_t estimate_step(const Model& model, const Corpus& corpus, const Config& config) {
  std::uint64_t max_bytes = 0;
  for (const BatchBound& bound : largest_bounds(corpus, config)) {
    max_bytes = std::max(max_bytes, estimate_step(model, corpus, config, bound));
  }
  return max_bytes + bytes_of_waiting_batches(corpus, config);
}

std::string to_line(const MemoryNeed& need, const std::string& largest_step,
                    const AvailableMemory& available) {
  return fmt::format(
      "memory: about {} needed in addition to the data (model and optimizer {}, the largest step "
      "of {} {}, validation {}, saving {}{}, other {}), {} free{}",
      format_bytes(need.total()), format_bytes(need.state), largest_step, format_bytes(need.step),
      format_bytes(need.validation), format_bytes(need.saving),
      need.average == 0
          ? ""
          : fmt::format(" or averaging the last checkpoints {}", format_bytes(need.average)),
      format_bytes(need.other), format_bytes(available.free),
      available.bound.empty() ? "" : fmt::format(" ({})", available.bound));
}

std::optional<MemoryShortage> find_memory_shortage(const MemoryNeed& need,
                                                   const AvailableMemory& available,
                                                   const Config& config) {
  if (need.total() <= available.free) return std::nullopt;
  const bool by_batch = std::max(need.step, need.validation) > need.state + need.for_checkpoints();
  return MemoryShortage{
      .found = fmt::format("{} of memory may be needed, {} are free{}", format_bytes(need.total()),
                           format_bytes(available.free),
                           available.bound.empty() ? "" : fmt::format(" ({})", available.bound)),
      .hint = !by_batch                        ? smaller_model_hint(config)
              : config.train.batch_tokens != 0 ? fewer_tokens_hint
                                               : smaller_batch_hint};
}

void require_memory_for_step(const MemoryNeed& need, const AvailableMemory& available,
                             const Config& config) {
  if (need.state + need.step <= available.total) return;
  const auto shortage = find_memory_shortage(need, available, config);
  throw MemoryError(
      fmt::format("memory: the model and the largest step need {}, found {}{}",
                  format_bytes(need.state + need.step), format_bytes(available.total),
                  available.bound.empty() ? "" : fmt::format(" ({})", available.bound)),
      shortage ? shortage->hint : smaller_model_hint(config));
}

std::optional<std::string> warning_about_memory(const MemoryNeed& need,
                                                const AvailableMemory& available,
                                                const Config& config) {
  const auto shortage = find_memory_shortage(need, available, config);
  if (!shortage) return std::nullopt;
  return fmt::format("warning: {}; {}", shortage->found, shortage->hint);
}

}  // namespace tapestry
