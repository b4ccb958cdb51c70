#include "train/tasks/task.h"

#include <fmt/format.h>

#include <array>
#include <stdexcept>

#include "data/io/error.h"
#include "train/inference/evaluator.h"

namespace tapestry {
namespace {

Tokens token_names(const std::vector<std::int32_t>& ids, const Vocabulary& vocabulary) {
  Tokens names;
  for (const std::int32_t id : ids) names.push_back(vocabulary.token(id));
  return names;
}

void require_fitting(const std::vector<Example>& examples, const char* part, const Config& config) {
  const Task& task = find_task(config);
  const std::size_t most = config.model.max_length;
  for (std::size_t i = 0; i < examples.size(); ++i) {
    const std::size_t tokens = longest_side(examples[i], task.layout());
    if (tokens <= most) continue;
    const auto [example, read, more_hint] = task.length_words();
    throw DataError(
        fmt::format("{} {} {}: found {} tokens {}, expected at most {} (model.max_length)", part,
                    example, i + 1, tokens, read, most),
        fmt::format("set model.max_length to {} or more{}", tokens, more_hint));
  }
}

}  // namespace

std::string Task::describe_size(const Batch& batch) const {
  return fmt::format("{} x {} tokens", batch.rows, batch.target_length);
}

Scores Task::evaluate(const Model& model, const Config& config, const BatchRules& rules,
                      const Vocabulary&, const std::vector<Example>& examples, std::size_t) const {
  return score_labels(model, examples, config.train.batch_size, rules);
}

std::string Task::format_scores(const Scores& scores, const Config&) const {
  return fmt::format("loss {:.4f}  perplexity {:.3f}  tokens {:.2f} %", scores.loss,
                     scores.perplexity, 100 * scores.token_accuracy);
}

std::vector<ShownExample> Task::show(const TrainedModel&, const std::vector<Example>&) const {
  return {};
}

Example Task::read_text(std::string_view, const TextCodec&) const {
  throw std::logic_error(fmt::format("{}: the task reads no text", kind().name));
}

TokenLimit Task::token_limit(const Config& config) const {
  return {.tokens = config.model.max_length, .key = "model.max_length"};
}

const char* Task::input_hint() const {
  return "give it text, one sentence a line, such as `< FILE`";
}

std::optional<Example> Task::read_line(const std::string& line, std::size_t,
                                       const std::string& place,
                                       const TrainedModel& trained) const {
  Example example = read_text(line, trained.codec);
  if (example == Example{}) return std::nullopt;
  const std::size_t tokens = longest_side(example, layout());
  const TokenLimit most = token_limit(trained.config);
  if (tokens <= most.tokens) return example;
  throw DataError(fmt::format("{}: found {} tokens {}, expected at most {} ({})", place, tokens,
                              length_words().tokens, most.tokens, most.key),
                  fmt::format("cut the line, or train a model with a larger {}", most.key));
}

std::vector<std::string> Task::answer(const TrainedModel&, const std::vector<Example>&) const {
  throw std::logic_error(fmt::format("{}: the task answers no lines", kind().name));
}

StackTokens Task::stack_tokens(const Batch& batch, const Config&, const TextCodec& codec) const {
  const Tokens target = token_names(batch.input, codec.target_vocabulary());
  if (!reads_source()) return {.encoder = target, .decoder = target};
  const Tokens source = token_names(batch.source, codec.source_vocabulary());
  return {.encoder = source, .decoder = one_label_per_example() ? source : target};
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
          .image = {.height = config.data.image_height,
                    .width = config.data.image_width,
                    .channels = config.data.image_channels}};
}

NetworkSizes network_sizes(const Config& config, const Corpus& corpus) {
  return network_sizes(config, corpus.source_vocabulary, corpus.target_vocabulary);
}

MakeNetwork network_maker(const Config& config, const NetworkSizes& sizes) {
  return [config, sizes](const Scope& scope) {
    return find_task(config).make_network(scope, config, sizes);
  };
}

BatchRules batch_rules(const Config& config, std::size_t vocabulary, std::uint64_t epoch) {
  return {.layout = find_task(config).layout(),
          .vocabulary = vocabulary,
          .seed = config.train.seed,
          .epoch = epoch};
}

Batch inference_batch(const Task& task, const Example& example) {
  return make_batch({example}, std::array<std::size_t, 1>{0}, {.layout = task.inference_layout()});
}

BatchLengths batch_lengths(const Config& config) {
  const bool mixed = config.model.normalization == Normalization::batch_norm;
  return mixed ? BatchLengths::mixed : BatchLengths::alike;
}

void require_fitting_examples(const Corpus& corpus, const Config& config) {
  require_fitting(corpus.train, "training", config);
  require_fitting(corpus.validation, "validation", config);
  require_fitting(corpus.test, "test", config);
}

}  // namespace tapestry
