// SPDX-License-Identifier: BSD-3-Clause
#include "train/tasks/task.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "train/base/error.h"
#include "train/base/format.h"
#include "train/inference/batch_tensors.h"
#include "train/inference/evaluator.h"
#include "train/tasks/checked_network.h"

namespace tapestry {
namespace {

bool is_custom(const Task& task) {
  const std::vector<std::string> kinds = custom_kinds();
  return std::ranges::find(kinds, task.kind().name) != kinds.end();
}

/// Creates the network of a custom task, wrapped so that its results are checked.
std::unique_ptr<Network> custom_network(const Task& task, const Scope& scope, const Config& config,
                                        const NetworkSizes& sizes) {
  const std::string kind(task.kind().name);
  auto network = call_custom_code(kind, "make_network",
                                  [&] { return task.make_network(scope, config, sizes); });
  if (!network) {
    throw CustomModelError(
        fmt::format("custom model {}: make_network() returned null, expected a network", kind),
        "return std::make_unique<...>(...)");
  }
  const TaskTraits traits = task.traits();
  return checked_network(std::move(network), {.kind = kind,
                                              .logits = sizes.target,
                                              .reads_source = traits.reads_source,
                                              .reads_images = traits.reads_images,
                                              .one_label_per_row = traits.one_label_per_example});
}

}  // namespace

std::string Task::describe_size(const Batch& batch) const {
  return fmt::format("{} x {} tokens", batch.rows, batch.target_length);
}

const TaskAnswers& Task::answers() const {
  static const TaskAnswers none;
  return none;
}

Scores Task::evaluate(const Model& model, const Config& config, const BatchRules& rules,
                      const EvaluationSet& set, std::size_t) const {
  return score_labels(model, set.examples, config.train.batch_size, rules, {}, set.share);
}

std::string Task::format_scores(const Scores& scores, const Config&) const {
  return fmt::format("loss {}  perplexity {}  accuracy {:.2f} %", format_value(scores.loss, 4),
                     format_value(scores.perplexity, 3), 100 * scores.token_accuracy);
}

const Task& find_task(std::string_view model_kind) {
  for (const Task* task : all_tasks()) {
    if (task->kind().name == model_kind) return *task;
  }
  throw std::invalid_argument(fmt::format("model.kind: there is no kind {}", model_kind));
}

const Task& find_task(const Config& config) { return find_task(config.model_kind); }

NetworkSizes network_sizes(const Config& config, const Vocabulary& source,
                           const Vocabulary& target) {
  const bool classes = find_task(config).layout().labels_are_classes;
  return {.source = source.size(),
          .target = classes ? target.size() - first_word_id : target.size(),
          .image = {.height = config.data.images.image_height,
                    .width = config.data.images.image_width,
                    .channels = config.data.images.image_channels}};
}

NetworkSizes network_sizes(const Config& config, const Corpus& corpus) {
  return network_sizes(config, corpus.source_vocabulary, corpus.target_vocabulary);
}

MakeNetwork network_maker(const Config& config, const NetworkSizes& sizes) {
  return [config, sizes](const Scope& scope) {
    const Task& task = find_task(config);
    return is_custom(task) ? custom_network(task, scope, config, sizes)
                           : task.make_network(scope, config, sizes);
  };
}

void try_network(const Config& config, const Model& model, const Batch& batch) {
  if (!is_custom(find_task(config))) return;
  (*model.network)(network_input(batch, model.parameters.dtype()), Mode::inference());
}

namespace {

Tokens token_names(const std::vector<std::int32_t>& ids, const Vocabulary& vocabulary) {
  Tokens names;
  for (const std::int32_t id : ids) names.push_back(vocabulary.token(id));
  return names;
}

/// Removes the last `count` tokens of each sequence that is long enough, but not its <eos>.
///
/// has_class  whether the target is a class instead of tokens
Example without_last(Example example, std::size_t count, bool has_class) {
  const auto shorten = [count](std::vector<std::int32_t>& ids) {
    if (ids.size() <= count) return;
    const auto end = ids.back() == eos_id ? ids.end() - 1 : ids.end();
    ids.erase(end - static_cast<std::ptrdiff_t>(count), end);
  };
  shorten(example.source);
  if (!has_class) shorten(example.target);
  return example;
}

}  // namespace

std::vector<ShownExample> TaskAnswers::show(const TrainedModel&,
                                            const std::vector<Example>&) const {
  return {};
}

Example TaskAnswers::read_text(std::string_view, const TextCodec&) const {
  throw std::logic_error("TaskAnswers::read_text(): the task reads no text");
}

TokenLimit TaskAnswers::token_limit(const Config& config) const {
  return {.tokens = config.model.max_length, .key = "model.max_length"};
}

std::optional<Example> TaskAnswers::read_line(const std::string& line, std::size_t,
                                              const std::string& place,
                                              const TrainedModel& trained) const {
  Example example = read_text(line, trained.codec);
  if (example == Example{}) return std::nullopt;
  const Task& task = find_task(trained.config);
  const std::size_t tokens = longest_side(example, task.layout());
  const TokenLimit limit = token_limit(trained.config);
  if (tokens <= limit.tokens) return example;
  throw LongLine(
      fmt::format("{}: found {} tokens {}, expected at most {} ({})", place, tokens,
                  task.words(trained.config).tokens, limit.tokens, limit.key),
      fmt::format("shorten the line, or train a model with a larger {}", limit.key),
      without_last(std::move(example), tokens - limit.tokens, task.traits().one_label_per_example));
}

std::vector<std::string> TaskAnswers::answer(const TrainedModel&,
                                             const std::vector<Example>&) const {
  throw std::logic_error("TaskAnswers::answer(): the task answers no lines");
}

std::vector<std::string> TaskAnswers::top_answers(const TrainedModel&, const std::vector<Example>&,
                                                  std::size_t) const {
  throw std::logic_error("TaskAnswers::top_answers(): the task ranks no answers");
}

StackTokens TaskAnswers::stack_tokens(const Batch& batch, const Config& config,
                                      const TextCodec& codec) const {
  const TaskTraits traits = find_task(config).traits();
  const Tokens target = token_names(batch.input, codec.target_vocabulary());
  if (!traits.reads_source) return {.encoder = target, .decoder = target};
  const Tokens source = token_names(batch.source, codec.source_vocabulary());
  return {.encoder = source, .decoder = traits.one_label_per_example ? source : target};
}

}  // namespace tapestry
