#include "train/tasks/task.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "train/base/error.h"
#include "train/inference/batch_tensors.h"
#include "train/inference/evaluator.h"
#include "train/tasks/checked_network.h"

namespace tapestry {
namespace {

bool is_custom(const Task& task) {
  const std::vector<std::string> kinds = custom_kinds();
  return std::ranges::find(kinds, task.kind().name) != kinds.end();
}

/// The network of a task of another program, which is checked.
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
  return fmt::format("loss {:.4f}  perplexity {:.3f}  tokens {:.2f} %", scores.loss,
                     scores.perplexity, 100 * scores.token_accuracy);
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

}  // namespace tapestry
