#include "train/model.h"

#include <doctest/doctest.h>

#include <typeinfo>

#include "layers/encoder_models.h"
#include "layers/transformer.h"
#include "train/objective.h"

namespace tapestry {
namespace {

constexpr ModelKind every_kind[] = {ModelKind::seq2seq, ModelKind::language_model,
                                    ModelKind::masked_language_model, ModelKind::classifier,
                                    ModelKind::vision_transformer};

TransformerOptions small(ModelKind kind) {
  return {.kind = kind,
          .d_model = 12,
          .num_heads = 3,
          .num_encoder_layers = 3,
          .num_decoder_layers = 2,
          .d_ff = 20,
          .max_length = 17};
}

constexpr NetworkSizes sizes{
    .source = 37, .target = 41, .image = {.height = 4, .width = 8, .channels = 3}};

TEST_CASE("parameters are counted as the model makes them, for every kind") {
  for (const ModelKind kind : every_kind) {
    CAPTURE(static_cast<int>(kind));
    const std::uint64_t counted = count_values(small(kind), sizes).parameters;
    CHECK(counted == Model(small(kind), sizes, DType::float32, 1).parameters.num_values());
  }
  // Patches of 2 x 2 x 3 values, a class token, three layers, the last norm and a head.
  const std::uint64_t layer = 4 * (12 * 12 + 12) + 2 * 12 * 20 + 20 + 12 + 4 * 12;
  CHECK(count_values(small(ModelKind::vision_transformer), sizes).parameters ==
        (12 * 12 + 12) + 12 + 3 * layer + 2 * 12 + (12 * 41 + 41));
}

TEST_CASE("a model is of the kind that it was made as, and of no other") {
  const Model model(small(ModelKind::language_model), sizes, DType::float32, 1);
  CHECK(model.as<LanguageModel>().causal());
  CHECK_THROWS_AS(model.as<Transformer>(), std::bad_cast);
}

TEST_CASE("classes are counted without the special symbols, words with them") {
  Config config;
  config.data.image_height = 3;
  config.data.image_width = 5;
  config.data.image_channels = 2;
  const Vocabulary source({"a", "b", "c"}), target({"x", "y"});
  for (const ModelKind kind : every_kind) {
    config.model.kind = kind;
    const NetworkSizes made = network_sizes(config, source, target);
    const bool tells_classes = objective_of(kind) == Objective::label;
    CHECK(made.source == 7);
    CHECK(made.target == (tells_classes ? 2 : 6));
    CHECK(made.image.values() == 30);
  }
}

TEST_CASE("each kind of model learns its own objective") {
  CHECK(objective_of(ModelKind::seq2seq) == Objective::translation);
  CHECK(objective_of(ModelKind::language_model) == Objective::next_token);
  CHECK(objective_of(ModelKind::masked_language_model) == Objective::masked_tokens);
  CHECK(objective_of(ModelKind::classifier) == Objective::label);
  CHECK(objective_of(ModelKind::vision_transformer) == Objective::label);
}

TEST_CASE("what is hidden follows the seed of the run and the epoch") {
  Config config;
  config.model.kind = ModelKind::masked_language_model;
  config.train.seed = 9;
  const BatchRules rules = batch_rules(config, 30, 4);
  CHECK(rules.objective == Objective::masked_tokens);
  CHECK(rules.vocabulary == 30);
  CHECK(rules.seed == 9);
  CHECK(rules.epoch == 4);
  CHECK(batch_rules(config, 30).epoch == 0);
}

TEST_CASE("batches of a model with batch norms mix all lengths, those of others do not") {
  Config config;
  CHECK(batch_lengths(config) == BatchLengths::alike);
  config.model.normalization = Normalization::batch_norm;
  CHECK(batch_lengths(config) == BatchLengths::mixed);
}

}  // namespace
}  // namespace tapestry
