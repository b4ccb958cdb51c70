#include "train/memory_need.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>
#include <utility>

#include "autograd/kernels/memory.h"
#include "autograd/random.h"
#include "autograd/tape.h"
#include "data/text/vocabulary.h"
#include "train/error.h"
#include "train/format.h"
#include "train/step.h"
#include "train/tasks/task.h"

namespace tapestry {
namespace {

constexpr const char* smaller_model_hint =
    "try a smaller model: model.d_model, model.d_ff, model.num_encoder_layers, "
    "model.num_decoder_layers or data.max_vocabulary";
constexpr const char* smaller_batch_hint =
    "try a smaller train.batch_size with a larger train.accumulate";

/// Number of values that the optimizer stores per parameter.
std::uint64_t moments(const OptimizerOptions& options) {
  if (options.kind == OptimizerKind::sgd) return options.momentum != 0.0 ? 1 : 0;
  return 2;
}

/// The indices of `count` examples for the largest batch: an example with the longest source, one
/// with the longest target, and those with the most tokens of the others.
std::vector<std::size_t> longest_examples(const std::vector<Example>& examples, std::size_t count) {
  std::vector<std::size_t> order(examples.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto move_to_front = [&](std::size_t place, const auto& length) {
    const auto begin = order.begin() + static_cast<std::ptrdiff_t>(place);
    std::iter_swap(begin, std::ranges::max_element(begin, order.end(), {}, [&](std::size_t i) {
                     return length(examples[i]);
                   }));
  };
  move_to_front(0, [](const Example& example) { return example.source.size(); });
  if (count > 1) move_to_front(1, [](const Example& example) { return example.target.size(); });
  const auto rest = order.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(count, 2));
  std::ranges::partial_sort(
      rest, order.begin() + static_cast<std::ptrdiff_t>(count), order.end(), std::ranges::greater(),
      [&](std::size_t i) { return examples[i].source.size() + examples[i].target.size(); });
  order.resize(count);
  return order;
}

std::uint64_t largest_logits(const std::vector<Example>& examples, std::size_t batch_size,
                             std::size_t vocabulary) {
  std::size_t longest = 0;
  for (const Example& example : examples) longest = std::max(longest, example.target.size() + 1);
  return std::uint64_t{std::min(batch_size, examples.size())} * longest * vocabulary;
}

}  // namespace

MemoryNeed need_of_model(const Config& config, const Corpus& corpus) {
  const NetworkSizes sizes = network_sizes(config, corpus);
  const std::uint64_t number = bytes_per_element(config.train.dtype);
  const ValueCount count = count_values(network_maker(config, sizes));
  const std::uint64_t parameters = number * count.parameters;
  const std::uint64_t with_moments = (1 + moments(config.optimizer)) * parameters;
  // Values are created one by one and then moved beside the gradients: three times the parameters.
  return {.state = std::max(parameters + with_moments, 3 * parameters) + number * count.constants,
          .validation =
              number * largest_logits(corpus.validation, config.train.batch_size, sizes.target),
          .saving = 3 * with_moments + with_moments / 8};
}

void require_memory_for_model(const Config& config, const Corpus& corpus,
                              const AvailableMemory& available) {
  const std::uint64_t need = need_of_model(config, corpus).state;
  if (need <= available.total) return;
  throw MemoryError(
      fmt::format(
          "memory: {} parameters need {} with their gradients and the optimizer's moments, "
          "found {}{}",
          format_count(
              count_values(network_maker(config, network_sizes(config, corpus))).parameters),
          format_bytes(need), format_bytes(available.total),
          available.bound.empty() ? " in this machine" : fmt::format(" ({})", available.bound)),
      smaller_model_hint);
}

Batch largest_batch(const std::vector<Example>& examples, std::size_t batch_size,
                    const BatchRules& rules) {
  return make_batch(examples, longest_examples(examples, std::min(batch_size, examples.size())),
                    rules);
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
  for (NamedTensor parameter : model.parameters) parameter.tensor.clear_gradient();
  return kernels::memory_statistics().peak_bytes_in_use - before;
}

std::uint64_t estimate_step(const Model& model, const Corpus& corpus, const Config& config) {
  // At least this many tokens, so that data processed in chunks fill whole chunks. The number of
  // rows is halved repeatedly, so that the pool rounds block sizes as it does for all rows.
  constexpr std::size_t enough_tokens = 128;
  const std::size_t rows = std::min(config.train.batch_size, corpus.train.size());
  const BatchRules rules = batch_rules(config, corpus.target_vocabulary.size());
  const Batch two = largest_batch(corpus.train, 2, rules);
  const std::size_t length = std::max(two.source_length, two.target_length);
  std::size_t few = rows;
  while (few / 2 >= 1 && few / 2 * length >= enough_tokens) few /= 2;
  if (few == rows) few = std::max<std::size_t>(1, rows / 2);
  const auto of = [&](std::size_t some) {
    const std::uint64_t bytes = warm_up(model, largest_batch(corpus.train, some, rules), config);
    kernels::release_unused_memory();  // the run does not use blocks of these sizes
    return bytes;
  };
  const std::uint64_t some = of(few);
  if (rows < 2 * few) return some;
  const std::uint64_t more = of(2 * few);
  return more + (more - std::min(some, more)) * (rows - 2 * few) / few;
}

std::string to_line(const MemoryNeed& need, const std::string& largest_step,
                    const AvailableMemory& available) {
  return fmt::format(
      "memory: about {} needed beside the data (model and optimizer {}, the largest step of {} {}, "
      "validation {}, "
      "saving {}, other {}), {} free{}",
      format_bytes(need.total()), format_bytes(need.state), largest_step, format_bytes(need.step),
      format_bytes(need.validation), format_bytes(need.saving), format_bytes(need.other),
      format_bytes(available.free),
      available.bound.empty() ? "" : fmt::format(" ({})", available.bound));
}

std::optional<std::string> warning_about_memory(const MemoryNeed& need,
                                                const AvailableMemory& available) {
  if (need.total() <= available.free) return std::nullopt;
  const bool by_batch = std::max(need.step, need.validation) > need.state + need.saving;
  return fmt::format("warning: {} of memory may be needed, {} are free{}; {}",
                     format_bytes(need.total()), format_bytes(available.free),
                     available.bound.empty() ? "" : fmt::format(" ({})", available.bound),
                     by_batch ? smaller_batch_hint : smaller_model_hint);
}

}  // namespace tapestry
