// SPDX-License-Identifier: BSD-3-Clause
#include "train/config/error.h"
#include "train/models/trained_model.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "tests/train/error_text.h"
#include "tests/train/hand_made_model.h"
#include "train/base/error.h"

namespace tapestry {
namespace {

using Lines = std::vector<std::string>;
using Values = std::map<std::string, std::vector<double>>;

TransformerOptions options(std::size_t d_model = 8) {
  return {.d_model = d_model, .num_heads = 2, .num_encoder_layers = 1, .d_ff = 12, .max_length = 9};
}

Model masked(const TransformerOptions& options, std::size_t words, DType dtype,
             std::uint64_t seed) {
  return test::make_model("masked_language_model", options, {.source = words, .target = words},
                          dtype, seed);
}

TrainedModel masked_model(DType dtype = DType::float32, std::size_t words = 11) {
  return {.config = {},
          .codec = TextCodec({}, Vocabulary(), Vocabulary()),
          .model = std::make_unique<Model>(masked(options(), words, dtype, 1)),
          .data = {},
          .step = 1234};
}

Model classifier(const TransformerOptions& sizes = options(), DType dtype = DType::float32) {
  return test::make_model("classifier", sizes, {.source = 11, .target = 3}, dtype, 2);
}

Values values_of(const Model& model) {
  Values all;
  for (const NamedTensor& p : model.parameters) {
    dispatch(p.tensor.dtype(), [&]<class T>() {
      const auto values = p.tensor.values<T>();
      all[p.name] = {values.begin(), values.end()};
    });
  }
  return all;
}

TEST_CASE(
    "a classifier loads the encoder of a masked language model and initializes its own head") {
  const TrainedModel from = masked_model();
  Model to = classifier();
  const Values before = values_of(to), given = values_of(*from.model);
  // The loaded tensors are the embedding, 16 tensors of the layer, and weight and bias of the final
  // norm.
  CHECK(load_pretrained(from, "runs/masked", {}, to) ==
        Lines{"initialized from runs/masked, step 1234: loaded 19 of 21 tensors, 95.9 % of the "
              "parameters",
              "  newly initialized: 2 tensors: head.weight (3, 8), head.bias (3)",
              "  not used from the pretrained model: 2 tensors: output.weight (11, 8), output.bias "
              "(11)"});
  for (const auto& tensor : values_of(to)) {
    const std::string& name = tensor.first;
    CAPTURE(name);
    CHECK(tensor.second == (name.starts_with("head.") ? before : given).at(name));
  }
}

TEST_CASE("a tensor of a different shape is newly initialized, not taken from the pretrained run") {
  const TrainedModel from = masked_model(DType::float32, 10);
  Model to = classifier();
  const Values before = values_of(to);
  const Lines lines = load_pretrained(from, "m", {}, to);
  CHECK(lines[0] ==
        "initialized from m, step 1234: loaded 18 of 21 tensors, 82.6 % of the parameters");
  CHECK(lines[1] ==
        "  newly initialized: 3 tensors: embedding.weight (11, 8), head.weight (3, 8), head.bias "
        "(3)");
  CHECK(lines[2] ==
        "  not used from the pretrained model: 3 tensors: embedding.weight (10, 8), output.weight "
        "(10, 8), output.bias (10)");
  CHECK(values_of(to).at("embedding.weight") == before.at("embedding.weight"));
}

TEST_CASE("loaded tensors are counted relative to the new model, not to the pretrained model") {
  TransformerOptions deeper = options();
  deeper.num_encoder_layers = 2;
  TrainedModel from = masked_model();
  from.model = std::make_unique<Model>(masked(deeper, 11, DType::float32, 1));
  TransformerOptions learned = options();
  learned.positions = PositionKind::learned;
  Model to = masked(learned, 11, DType::float32, 2);
  const Lines lines = load_pretrained(from, "m", {}, to);
  CHECK(lines[0].starts_with("initialized from m, step 1234: loaded 21 of 22 tensors, "));
  CHECK(lines[1].starts_with("  newly initialized: 1 tensor: "));
  CHECK(
      lines[2].starts_with("  not used from the pretrained model: 16 tensors: encoder.layers.1 "));
}

TEST_CASE("values are converted to the precision of the model") {
  const TrainedModel from = masked_model(DType::float64);
  Model to = classifier();
  load_pretrained(from, "m", {}, to);
  const Values given = values_of(*from.model), taken = values_of(to);
  const auto& exact = given.at("encoder.norm.weight");
  const auto& embedding = given.at("embedding.weight");
  CHECK(taken.at("encoder.norm.weight") == exact);
  for (std::size_t i = 0; i < embedding.size(); ++i) {
    CHECK(taken.at("embedding.weight")[i] == static_cast<float>(embedding[i]));
  }
  Model wide = classifier(options(), DType::float64);
  load_pretrained(masked_model(), "m", {}, wide);
  CHECK(values_of(wide).at("embedding.weight") ==
        values_of(*masked_model().model).at("embedding.weight"));
}

TEST_CASE("a pretrained model of the same kind and sizes is loaded completely") {
  const TrainedModel from = masked_model();
  Model to = masked(options(), 11, DType::float32, 2);
  CHECK(load_pretrained(from, "m", {}, to) ==
        Lines{"initialized from m, step 1234: loaded 21 of 21 tensors, 100.0 % of the parameters",
              "  newly initialized: 0 tensors", "  not used from the pretrained model: 0 tensors"});
  CHECK(values_of(to) == values_of(*from.model));
}

TEST_CASE("a pretrained head for different classes is not used, even if its shape fits") {
  TrainedModel from = masked_model();
  from.codec = TextCodec({}, Vocabulary(), Vocabulary({"no", "yes"}));
  from.model = std::make_unique<Model>(classifier());
  Model same = classifier(), other = classifier();
  CHECK(load_pretrained(from, "m", Vocabulary({"no", "yes"}), same)[1] ==
        "  newly initialized: 0 tensors");
  const Lines lines = load_pretrained(from, "m", Vocabulary({"bad", "good"}), other);
  CHECK(lines[1] == "  newly initialized: 2 tensors: head.weight (3, 8), head.bias (3)");
  CHECK(lines[2] ==
        "  not used from the pretrained model: 2 tensors: head.weight (3, 8), head.bias (3)");
}

TEST_CASE("a pretrained model without matching tensors is rejected, and nothing is changed") {
  TransformerOptions other = options(6);
  other.d_ff = 10;
  Model to = classifier(other);
  const Values before = values_of(to);
  CHECK_THROWS_WITH_AS(
      load_pretrained(masked_model(), "runs/m", {}, to),
      "train.initialize_from: runs/m: found no tensor that matches a tensor of the model in name "
      "and shape\n"
      "hint: name a run with the model's sizes (d_model, d_ff, layers), or remove the key",
      ConfigError);
  CHECK(values_of(to) == before);
}

}  // namespace
}  // namespace tapestry
