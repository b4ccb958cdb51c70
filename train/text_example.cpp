#include "train/text_example.h"

#include <utility>
#include <vector>

#include "train/objective.h"

namespace tapestry {

Example text_example(std::string_view text, const Config& config, const TextCodec& codec) {
  const Objective objective = objective_of(config.model.kind);
  const bool has_source = objective == Objective::translation || objective == Objective::label;
  std::vector<std::int32_t> ids =
      has_source ? codec.encode_source(text) : codec.encode_target(text);
  if (ids.empty()) return {};
  const bool sentences = config.data.task != TaskKind::text;
  if (objective != Objective::translation && sentences) ids.insert(ids.begin(), bos_id);
  if (objective == Objective::label) return {.source = std::move(ids), .target = {first_word_id}};
  if (has_source) return {.source = std::move(ids)};
  // A language model does not read the last token, which it only predicts.
  if (sentences || objective == Objective::next_token) ids.push_back(eos_id);
  return {.target = std::move(ids)};
}

TokenLimit token_limit(const Config& config) {
  const bool windows = config.data.task == TaskKind::text;
  const bool predicts_next = objective_of(config.model.kind) == Objective::next_token;
  const std::size_t learnt = config.data.context + (predicts_next ? 0 : 1);
  if (windows && learnt < config.model.max_length) {
    return {.tokens = learnt, .key = "data.context"};
  }
  return {.tokens = config.model.max_length, .key = "model.max_length"};
}

}  // namespace tapestry
