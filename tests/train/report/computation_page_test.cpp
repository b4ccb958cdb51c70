#include "train/report/computation_page.h"

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "data/text/vocabulary.h"
#include "tests/support/contains.h"
#include "tests/support/source_folder.h"
#include "tests/support/values.h"
#include "tests/train/make_model.h"
#include "train/config/config.h"
#include "train/inference/batch_tensors.h"
#include "train/report/number_text.h"
#include "train/report/step_text.h"

namespace tapestry {
namespace {

using Json = nlohmann::ordered_json;
using test::values_of;

Config small_config() {
  Config config;
  config.model_kind = "language_model";
  config.model.d_model = 8;
  config.model.num_heads = 2;
  config.model.num_decoder_layers = 1;
  config.model.d_ff = 12;
  config.model.max_length = 12;
  return config;
}

/// The trace of a tiny language model on "a b a".
struct Explained {
  explicit Explained(const Config& of = small_config())
      : config(of),
        codec({}, Vocabulary({"a", "b"}), Vocabulary({"a", "b"})),
        model(network_maker(config, {6, 6}), DType::float32, 1),
        batch(inference_batch(find_task(config), example())),
        trace(trace_computation(model, network_input(batch, DType::float32), label_ids(batch))) {}

  Json json(const NumberStorage& storage, std::size_t top = 2) const {
    return computation_json({.config = config,
                             .codec = codec,
                             .model = model,
                             .batch = batch,
                             .trace = trace,
                             .origin = "tiny.yaml, initial values",
                             .labels = "the next token"},
                            top, storage);
  }

  /// "a b a", with labels for a tagger.
  Example example() const {
    if (config.model_kind == "tagger") return {.source = {4, 5, 4}, .target = {4, 5, 4}};
    return {.target = {4, 5, 4, eos_id}};
  }

  Config config;
  TextCodec codec;
  Model model;
  Batch batch;
  ComputationTrace trace;
};

std::vector<double> numbers(const Json& tensor) {
  return numbers_from_text({.exponent = tensor["exponent"], .text = tensor["text"]},
                           static_cast<NumberDigits>(tensor["digits"].get<int>()));
}

TEST_CASE("the data have the values of every step, in both storages") {
  const Explained explained;
  const Json text = explained.json({}), plain = explained.json({.as_text = false});
  REQUIRE(text["steps"].size() == explained.trace.steps.size());
  for (std::size_t i = 0; i < explained.trace.steps.size(); ++i) {
    const TracedStep& step = explained.trace.steps[i];
    const Json& shown = text["steps"][i];
    CHECK(shown["operation"] == step.operation);
    CHECK(shown["layer"] == step.layer);
    CHECK(shown == plain["steps"][i]);
    for (const auto& [key, tensor] :
         {std::pair{"output", step.output}, {"gradient", step.gradient}}) {
      const Json& stored = text["tensors"][shown[key].get<std::size_t>()];
      const auto values = values_of(tensor);
      CHECK(plain["tensors"][shown[key].get<std::size_t>()]["values"] == Json(values));
      const auto read = numbers(stored);
      REQUIRE(read.size() == values.size());
      for (std::size_t j = 0; j < read.size(); ++j) {
        CHECK(std::abs(read[j] - values[j]) <= 5.0001e-6 * std::abs(values[j]));
      }
    }
  }
}

TEST_CASE("the data have tokens, ids, labels and the most likely predictions") {
  const Json data = Explained().json({.as_text = false});
  CHECK(data["kind"] == "language_model");
  CHECK(data["has_two_stacks"] == false);
  CHECK(data["dtype"] == "float32");
  CHECK(data["causal"] == true);
  CHECK(data["model"] == "tiny.yaml, initial values");
  CHECK(data["labels"] == "the next token");
  CHECK(data["outputs"] == Json{"<pad>", "<unk>", "<bos>", "<eos>", "a", "b"});
  CHECK(data["input"]["target"] == Json{{{"token", "a"}, {"id", 4}},
                                        {{"token", "b"}, {"id", 5}},
                                        {{"token", "a"}, {"id", 4}}});
  REQUIRE(data["predictions"].size() == 3);
  double loss = 0.0;
  for (std::size_t i = 0; i < 3; ++i) {
    const Json& prediction = data["predictions"][i];
    CHECK(prediction["label"]["token"] == Json{"b", "a", "<eos>"}[i]);
    loss += prediction["label"]["loss"].get<double>() / 3;
    const double p = prediction["label"]["probability"].get<double>();
    CHECK(prediction["label"]["loss"].get<double>() ==
          doctest::Approx(-std::log(p)).epsilon(1e-13));
    REQUIRE(prediction["top"].size() == 2);
    CHECK(prediction["top"][0]["probability"] >= prediction["top"][1]["probability"]);
    CHECK(prediction["top"][0]["probability"] >= prediction["label"]["probability"]);
  }
  CHECK(data["loss"].get<double>() == doctest::Approx(loss).epsilon(1e-6));
  CHECK(Explained().json({}, 1000)["predictions"][0]["top"].size() == 6);
}

TEST_CASE("the steps of attention have tensors by head, and names of queries and keys") {
  const Explained explained;
  const Json data = explained.json({.as_text = false});
  for (const Json& step : data["steps"]) {
    if (!step.contains("attention")) continue;
    const Json& attention = step["attention"];
    CHECK(attention["heads"] == 2);
    CHECK(attention["scale"] == 0.5);
    CHECK(attention["queries"] == "decoder");
    CHECK(attention["biased"].is_null());
    for (const char* name : {"products", "scores", "masked", "weights", "dweights", "dscores"}) {
      CHECK(data["tensors"][attention[name].get<std::size_t>()]["shape"] == Json{1, 2, 3, 3});
    }
    const Json& masked = data["tensors"][attention["masked"].get<std::size_t>()]["values"];
    CHECK(masked[0].is_number());
    CHECK(std::isinf(masked[1].get<double>()));
    return;
  }
  FAIL("no step of attention");
}

TEST_CASE("equal tensors are stored once, and large ones with fewer digits if the text is long") {
  const Explained explained;
  const Json data = explained.json({});
  std::set<std::string> seen;
  for (const Json& tensor : data["tensors"]) {
    CHECK(seen.insert(tensor.dump()).second);
    CHECK(tensor["digits"] == 6);
  }
  Config config = small_config();
  config.model.d_model = 64;
  config.model.d_ff = 2048;
  Model model(network_maker(config, {6, 6}), DType::float32, 1);
  const ComputationTrace trace = trace_computation(
      model, network_input(explained.batch, DType::float32), label_ids(explained.batch));
  const auto digits = [&](std::size_t characters) {
    const Json wide = computation_json({.config = config,
                                        .codec = explained.codec,
                                        .model = model,
                                        .batch = explained.batch,
                                        .trace = trace,
                                        .origin = "",
                                        .labels = ""},
                                       1, {.characters = characters});
    std::set<std::pair<std::size_t, int>> all;  // extent of the last axis
    for (const Json& tensor : wide["tensors"]) {
      if (tensor["shape"].size() == 3) all.emplace(tensor["shape"][2], tensor["digits"]);
    }
    return all;
  };
  using Digits = std::set<std::pair<std::size_t, int>>;
  CHECK(digits(9'000'000) == Digits{{6, 6}, {64, 6}, {2048, 4}});
  CHECK(digits(1) == Digits{{6, 6}, {64, 6}, {2048, 3}});
}

TEST_CASE("parameters have norms, and values unless they are large") {
  Explained explained;
  const Json data = explained.json({.as_text = false});
  const Json& bias = data["parameters"]["output.bias"];
  CHECK(bias["shape"] == Json{6});
  CHECK(bias["norm"] == 0.0);
  CHECK(bias["gradient_norm"] > 0.0);
  CHECK(data["tensors"][bias["gradient"].get<std::size_t>()]["values"] ==
        Json(values_of(explained.model.parameters.find("output.bias")->tensor.gradient())));
}

TEST_CASE("the config keys of a step have the values of the config, and its files exist") {
  const std::vector<ConfigKey> keys = config_keys();
  std::set<std::string> known;
  for (const ConfigKey& key : keys) known.insert(key.path());
  const std::string source = test::source_folder();
  for (const std::string layer :
       {"encoder.layers.0.self_attn.q_proj", "encoder.layers.0.self_attn", "embedding",
        "decoder.layers.1.cross_attn.out_proj", "encoder.layers.0.ff.linear1", "source_positions",
        "encoder.layers.0.ff.linear2", "encoder.layers.0.ff", "encoder.layers.0.ff.dropout",
        "encoder.layers.0.ff_residual.dropout", "encoder.norm", "patches.projection", "patches",
        "output", "head", ""}) {
    for (const char* operation : {"linear",
                                  "add",
                                  "slice",
                                  "matmul",
                                  "scaled_dot_product_attention",
                                  "additive_attention",
                                  "rotary",
                                  "head_linear",
                                  "relu",
                                  "relu_dropout",
                                  "gelu",
                                  "gelu_tanh",
                                  "silu",
                                  "swiglu",
                                  "geglu",
                                  "layer_norm",
                                  "rms_norm",
                                  "batch_norm_given",
                                  "embedding",
                                  "concat",
                                  "reshape",
                                  "permute",
                                  "residual_add",
                                  "cross_entropy",
                                  "mul",
                                  "div",
                                  "abs",
                                  "linear_cross_entropy",
                                  "log_softmax",
                                  "mean",
                                  "scale",
                                  "sigmoid",
                                  "softmax",
                                  "sub",
                                  "sum",
                                  "tanh"}) {
      CAPTURE(layer);
      CAPTURE(operation);
      const StepText text = step_text(operation, layer, Config{});
      CHECK_FALSE(text.title.empty());
      CHECK_FALSE(text.formula.empty());
      CHECK_FALSE(text.gradient.empty());
      CHECK_FALSE(text.files.empty());
      for (const std::string& key : text.keys) {
        CAPTURE(key);
        CHECK(known.contains(key));
      }
      for (const std::string& file : text.files) {
        CAPTURE(file);
        CHECK(std::filesystem::exists(std::filesystem::path(source) / file));
      }
    }
  }
  const Json steps = Explained().json({})["steps"];
  const auto found = std::ranges::find_if(
      steps, [](const Json& step) { return step["layer"] == "decoder.layers.0.ff.linear1"; });
  REQUIRE(found != steps.end());
  CHECK((*found)["keys"] == Json::parse(R"([["model.d_ff", "12"], ["model.activation", "relu"]])"));
}

TEST_CASE("a step has the keys of the kind of model alone") {
  const auto keys_of_embedding = [](const std::string& kind) {
    Config config = small_config();
    config.model_kind = kind;
    Explained explained(config);
    const Json steps = explained.json({})["steps"];
    const auto found = std::ranges::find(
        steps, "embedding", [](const Json& step) { return step["operation"].get<std::string>(); });
    return found->at("keys");
  };
  CHECK(keys_of_embedding("language_model") ==
        Json::parse(R"([["model.d_model", "8"], ["model.tie_embeddings", "none"]])"));
  CHECK(keys_of_embedding("tagger") == Json::parse(R"([["model.d_model", "8"]])"));
}

TEST_CASE("the formula of an embedding has the scale that was recorded") {
  const Json steps = Explained().json({})["steps"];
  CHECK(steps[0]["formula"] == "yᵢ = √d_model · W[idᵢ]");
  CHECK(steps[0]["gradient_formula"] ==
        "dL/dW[id] = √d_model · Σ dL/dyᵢ over the positions i of id");
  const auto formula = [](double scale) {
    StepText text = operation_text("embedding");
    add_scale(text, scale, 16);
    return text.formula;
  };
  CHECK(formula(1.0) == "yᵢ = W[idᵢ]");
  CHECK(formula(4.0) == "yᵢ = √d_model · W[idᵢ]");
  CHECK(formula(2.5) == "yᵢ = 2.5 · W[idᵢ]");
}

TEST_CASE("a step of a model of another program is named by its operation alone") {
  CHECK(custom_step_text("slice", "").title == "Slice");
  CHECK(custom_step_text("slice", "").keys.empty());
  CHECK(custom_step_text("matmul", "").formula == "y = A B");
  CHECK(custom_step_text("linear", "output").title == "Linear map");
  CHECK(custom_step_text("add", "positions").formula == "y = a + b");
  CHECK(custom_step_text("embedding", "embedding").title == "Embedding");
  CHECK(custom_step_text("add", "a.residual.dropout").title == "Sum");
  const std::string file = custom_step_text("linear", "ff.linear1").files.at(0);
  CHECK(file == "autograd/ops/linear.cpp");
  CHECK(custom_step_text("linear", "ff.linear1").files.size() == 1);
  CHECK(custom_step_text("linear", "block.head").keys == std::vector<std::string>{"model.d_model"});
  CHECK(custom_step_text("linear", "forehead").keys.empty());
  CHECK(test::contains(score_formula("additive_attention"), "tanh"));
  CHECK(score_formula("scaled_dot_product_attention") == "S = Q Kᵀ");
}

TEST_CASE("a loss that is not the mean of the losses of the labels is called one of the model") {
  Explained explained;
  CHECK(explained.json({})["own_loss"] == false);
  CHECK(explained.json({})["custom"] == false);
  explained.trace.loss *= 1.01;
  const Json data = explained.json({});
  CHECK(data["own_loss"] == true);
  CHECK(test::contains(data["steps"].back()["formula"].get<std::string>(), "α"));
}

/// An operation is shown with the file that defines it.
TEST_CASE("the source file of an operation defines it") {
  for (const char* operation : {"linear", "layer_norm", "embedding", "relu", "residual_add",
                                "cross_entropy", "rotary", "swiglu", "slice", "scale", "sum",
                                "mean", "tanh", "sub", "softmax", "linear_cross_entropy"}) {
    CAPTURE(operation);
    const StepText text = step_text(operation, "", Config{});
    std::string all;
    for (const std::string& file : text.files) {
      std::ifstream in(std::filesystem::path(test::source_folder()) / file);
      all += std::string(std::istreambuf_iterator<char>(in), {});
    }
    CHECK(test::contains(all, "\"" + std::string(operation) + "\""));
  }
}

TEST_CASE("texts of steps depend on the config and the layer") {
  Config config;
  CHECK(step_text("residual_add", "encoder.layers.0.ff_residual.dropout", config).formula ==
        "y = x + f(x)");
  config.model.skip_scale = 0.5;
  CHECK(step_text("add", "encoder.layers.0.ff_residual.dropout", config).formula ==
        "y = 0.5 · x + f(x)");
  CHECK(step_text("linear", "encoder.layers.0.self_attn.q_proj", config).title == "Queries Q");
  CHECK(step_text("linear", "head", config).title == "Logits");
  CHECK(step_text("slice", "", config).title == "Pooling: the first token");
  CHECK(step_text("matmul", "", config).title == "Pooling: mean of the tokens");
  config.model.positions = PositionKind::learned;
  CHECK(test::contains(step_text("add", "positions", config).formula, "learned"));
  const StepText other = step_text("my_operation", "mine", config);
  CHECK(other.title == "my_operation");
  CHECK(other.formula.empty());
  config.model.score = AttentionScore::additive;
  CHECK(test::contains(score_formula(config), "tanh"));
}

}  // namespace
}  // namespace tapestry
