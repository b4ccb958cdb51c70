#include "train/objective.h"

#include <array>

namespace tapestry {

Objective objective_of(ModelKind kind) {
  switch (kind) {
    case ModelKind::language_model:
      return Objective::next_token;
    case ModelKind::masked_language_model:
      return Objective::masked_tokens;
    case ModelKind::classifier:
    case ModelKind::vision_transformer:
      return Objective::label;
    case ModelKind::seq2seq:
      break;
  }
  return Objective::translation;
}

BatchRules batch_rules(const Config& config, std::size_t vocabulary, std::uint64_t epoch) {
  return {.objective = objective_of(config.model.kind),
          .vocabulary = vocabulary,
          .seed = config.train.seed,
          .epoch = epoch};
}

Batch shown_whole(Example example, Objective objective) {
  if (objective == Objective::masked_tokens) {
    objective = Objective::next_token;  // which is shown all but the last
    example.target.push_back(eos_id);
  }
  return make_batch({example}, std::array<std::size_t, 1>{0}, {.objective = objective});
}

BatchLengths batch_lengths(const Config& config) {
  const bool mixed = config.model.normalization == Normalization::batch_norm;
  return mixed ? BatchLengths::mixed : BatchLengths::alike;
}

const char* words_for_examples(const Config& config) {
  switch (config.model.kind) {
    case ModelKind::seq2seq:
      return "pairs";
    case ModelKind::vision_transformer:
      return "images";
    case ModelKind::classifier:
      return "sentences";
    default:
      return config.data.task == TaskKind::text ? "windows" : "sentences";
  }
}

const char* words_for_targets(const Config& config) {
  const bool one_each = objective_of(config.model.kind) == Objective::label;
  return one_each ? words_for_examples(config) : "tokens";
}

}  // namespace tapestry
