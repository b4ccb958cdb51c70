#include "train/tasks/answers.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "train/tasks/task.h"

namespace tapestry {
namespace {

Tokens token_names(const std::vector<std::int32_t>& ids, const Vocabulary& vocabulary) {
  Tokens names;
  for (const std::int32_t id : ids) names.push_back(vocabulary.token(id));
  return names;
}

/// Removes the last `count` tokens of each sequence that has so many, but not its <eos>.
///
/// has_class  the target is a class, not tokens
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
  const TokenLimit most = token_limit(trained.config);
  if (tokens <= most.tokens) return example;
  throw LongLine(
      fmt::format("{}: found {} tokens {}, expected at most {} ({})", place, tokens,
                  task.words(trained.config).tokens, most.tokens, most.key),
      fmt::format("cut the line, or train a model with a larger {}", most.key),
      without_last(std::move(example), tokens - most.tokens, task.traits().one_label_per_example));
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
