// SPDX-License-Identifier: BSD-3-Clause
#include "train/report/computation.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "autograd/ops/activations.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/linear.h"
#include "autograd/ops/norms.h"
#include "autograd/ops/reductions.h"
#include "autograd/tape.h"
#include "data/batch.h"
#include "data/text/vocabulary.h"
#include "tests/support/model_kind.h"
#include "tests/support/values.h"
#include "tests/train/own_loss.h"
#include "train/config/config.h"
#include "train/inference/batch_tensors.h"
#include "train/tasks/task_data.h"

namespace tapestry {
namespace {

using test::values_of;

constexpr std::size_t vocabulary = 11;

Config small_config(const std::string& kind) {
  Config config;
  config.model_kind = kind;
  config.model = {.d_model = 8,
                  .num_heads = 2,
                  .num_encoder_layers = 1,
                  .num_decoder_layers = 1,
                  .d_ff = 12,
                  .max_length = 12};
  return config;
}

MakeNetwork make_small(const std::string& kind) {
  return network_maker(small_config(kind), {vocabulary, vocabulary, {4, 4, 1}});
}

Model model_of(const std::string& kind) { return Model(make_small(kind), DType::float64, 1); }

/// A batch of one example for a kind of model, with labels.
Batch one_example_batch(const std::string& kind) {
  Example example{.source = {4, 5, 6}, .target = {7, 8, 9, 10}};
  if (kind == "classifier") example.target = {5};
  if (kind == "tagger") example.target = {5, 6, 5};
  if (kind == "vision_transformer")
    example = {.target = {5}, .pixels = std::vector<float>(16, 0.5F)};
  Batch batch = inference_batch(find_task(kind), example);
  if (kind == "masked_language_model") batch.labels = {no_label, 8, no_label, 10};
  return batch;
}

ComputationTrace record_trace(Model& model, const Batch& batch) {
  return trace_computation(model, network_input(batch, DType::float64), label_ids(batch));
}

const TracedStep& step_at(const ComputationTrace& trace, const std::string& layer,
                          const std::string& operation = "linear") {
  const auto found = std::ranges::find_if(trace.steps, [&](const TracedStep& step) {
    return step.layer == layer && step.operation == operation;
  });
  REQUIRE(found != trace.steps.end());
  return *found;
}

Tensor parameter(const Model& model, const std::string& name) {
  REQUIRE(model.parameters.find(name) != nullptr);
  return model.parameters.find(name)->tensor;
}

const std::vector<std::string> kinds(test::model_kind_names.begin(), test::model_kind_names.end());

TEST_CASE(
    "a trace contains logits, loss and gradients of a forward and backward pass of every kind") {
  for (const std::string& kind : kinds) {
    CAPTURE(kind);
    Model model = model_of(kind);
    const Batch batch = one_example_batch(kind);
    const NetworkInput input = network_input(batch, DType::float64);

    Tape tape;
    const Tensor logits = (*model.network)(input, Mode::inference());
    const Loss loss = cross_entropy(logits, label_ids(batch), {.ignored_id = no_label});
    tape.backward(loss.mean);
    std::vector<std::vector<double>> gradients;
    for (const auto& [name, tensor] : model.parameters) {
      const Tensor gradient = tensor.grad();
      gradients.push_back(gradient.defined() ? values_of(gradient) : std::vector<double>{});
    }

    record_trace(model, batch);  // the next trace overwrites its gradients
    const ComputationTrace trace = record_trace(model, batch);
    CHECK(values_of(trace.logits) == values_of(logits));
    CHECK(trace.loss == loss.mean.item());
    std::size_t i = 0;
    for (const NamedTensor& parameter : model.parameters) {
      CAPTURE(parameter.name);
      const Tensor gradient = parameter.tensor.grad();
      CHECK((gradient.defined() ? values_of(gradient) : std::vector<double>{}) == gradients[i++]);
    }
    CHECK(trace.steps.back().operation == "cross_entropy");
    CHECK(values_of(trace.steps.back().gradient) == std::vector{1.0});
  }
}

TEST_CASE("the steps of a trace are the layers of each kind of model, with output gradients") {
  for (const std::string& kind : kinds) {
    CAPTURE(kind);
    Model model = model_of(kind);
    const ComputationTrace trace = record_trace(model, one_example_batch(kind));
    std::size_t attentions = 0;
    for (std::size_t i = 0; i < trace.steps.size(); ++i) {
      const TracedStep& step = trace.steps[i];
      CHECK_FALSE(step.formula.empty());
      CHECK_FALSE(step.derivative.empty());
      REQUIRE(step.gradient.defined());
      CHECK(step.gradient.shape() == step.output.shape());
      CHECK((step.attention != nullptr) == (step.operation == "scaled_dot_product_attention"));
      if (step.attention) {
        ++attentions;
        CHECK(step.attention->path == step.layer);
        CHECK(step.attention->dscores.defined());
      }
      for (const TracedInput& input : step.inputs) {
        if (input.step) CHECK(*input.step < i);
        CHECK_FALSE((input.step && !input.parameter.empty()));
      }
    }
    CHECK(attentions == (kind == "seq2seq" ? 3 : 1));
  }
}

TEST_CASE("each step has the same values as a direct call of its operation") {
  Model model = model_of("language_model");
  const ComputationTrace trace = record_trace(model, one_example_batch("language_model"));
  const std::string layer = "decoder.layers.0.";
  const TracedStep& norm = step_at(trace, layer + "self_attn_residual.norm", "layer_norm");
  const Tensor x = norm.inputs.at(0).value;
  CHECK(norm.inputs.at(1).parameter == layer + "self_attn_residual.norm.weight");
  const Tensor normed = layer_norm(x, parameter(model, norm.inputs.at(1).parameter),
                                   parameter(model, norm.inputs.at(2).parameter), 1e-5);
  CHECK(values_of(norm.output) == values_of(normed));

  const TracedStep& queries = step_at(trace, layer + "self_attn.q_proj");
  REQUIRE(queries.inputs.at(0).step.has_value());
  CHECK(&trace.steps[*queries.inputs[0].step] == &norm);
  const Tensor q = linear(normed, parameter(model, layer + "self_attn.q_proj.weight"),
                          parameter(model, layer + "self_attn.q_proj.bias"));
  const Tensor k = linear(normed, parameter(model, layer + "self_attn.k_proj.weight"),
                          parameter(model, layer + "self_attn.k_proj.bias"));
  CHECK(values_of(queries.output) == values_of(q));

  const TracedStep& attention = step_at(trace, layer + "self_attn", "scaled_dot_product_attention");
  REQUIRE(attention.attention);
  const std::vector<double> q_values = values_of(q), k_values = values_of(k);
  const std::vector<double> scores = values_of(attention.attention->scores),
                            weights = values_of(attention.attention->weights);
  REQUIRE(scores.size() == 2 * 3 * 3);
  for (std::size_t h = 0; h < 2; ++h) {
    for (std::size_t i = 0; i < 3; ++i) {
      double total = 0.0;
      std::vector<double> expected(3, 0.0);
      for (std::size_t j = 0; j <= i; ++j) {
        double product = 0.0;
        for (std::size_t c = 0; c < 4; ++c) {
          product += q_values[i * 8 + h * 4 + c] * k_values[j * 8 + h * 4 + c];
        }
        CHECK(scores[(h * 3 + i) * 3 + j] == doctest::Approx(product / 2.0).epsilon(1e-12));
        expected[j] = std::exp(product / 2.0);
        total += expected[j];
      }
      for (std::size_t j = 0; j < 3; ++j) {
        CHECK(weights[(h * 3 + i) * 3 + j] == doctest::Approx(expected[j] / total).epsilon(1e-12));
      }
    }
  }
}

TEST_CASE("the gradient of the logits is (p - onehot) / n, and 0 without a label") {
  Model model = model_of("masked_language_model");
  const Batch batch = one_example_batch("masked_language_model");
  const ComputationTrace trace = record_trace(model, batch);
  const TracedStep& output = step_at(trace, "output");
  CHECK(output.output.identity() == trace.logits.identity());
  const std::vector<double> p = values_of(softmax(trace.logits)), g = values_of(output.gradient);
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t c = 0; c < vocabulary; ++c) {
      const bool labelled = batch.labels[i] != no_label;
      const double hit = static_cast<std::int32_t>(c) == batch.labels[i] ? 1.0 : 0.0;
      const double expected = labelled ? (p[i * vocabulary + c] - hit) / 2.0 : 0.0;
      CHECK(g[i * vocabulary + c] == doctest::Approx(expected).epsilon(1e-12));
    }
  }
  double loss = 0.0;
  for (const std::size_t i : {1U, 3U}) {
    loss -= std::log(p[i * vocabulary + static_cast<std::size_t>(batch.labels[i])]) / 2.0;
  }
  CHECK(trace.loss == doctest::Approx(loss).epsilon(1e-12));
}

TEST_CASE("a trace without labels throws and does not affect later passes") {
  Model model = model_of("masked_language_model");
  Batch batch = one_example_batch("masked_language_model");
  std::ranges::fill(batch.labels, no_label);
  CHECK_THROWS_AS(record_trace(model, batch), ValueError);
  CHECK(execution_context().tape == nullptr);
  CHECK(execution_context().attention_tracer == nullptr);
}

Model model_with_loss(const test::OwnLoss& loss) {
  return Model(test::with_loss(make_small("language_model"), loss), DType::float64, 1);
}

TEST_CASE("a trace uses the loss of the network, with its steps and gradients") {
  const Batch batch = one_example_batch("language_model");
  Model plain = model_with_loss(
      [](const Network& network, const Tensor& features, const Ids& labels,
         const CrossEntropyOptions& options) { return network.loss(features, labels, options); });
  const ComputationTrace expected = record_trace(plain, batch);
  CHECK(expected.steps.back().operation == "cross_entropy");

  Model wrong = model_with_loss(test::loss_times_7);
  const ComputationTrace trace = record_trace(wrong, batch);
  CHECK(trace.loss == doctest::Approx(7 * expected.loss).epsilon(1e-12));
  CHECK(trace.steps.back().operation == "scale");
  CHECK(values_of(trace.steps.back().gradient) == std::vector{1.0});
  CHECK(values_of(trace.logits) == values_of(expected.logits));
  test::check_values(parameter(wrong, "output.weight").grad(),
                     values_of(scale(parameter(plain, "output.weight").grad(), 7.0)));
}

TEST_CASE("logits of a loss without cross entropy are computed separately") {
  const Batch batch = one_example_batch("language_model");
  Model model = model_with_loss([](const Network& network, const Tensor& features, const Ids&,
                                   const CrossEntropyOptions&) {
    return Loss{.mean = mean(square(network.logits(features))), .nll_sum = 0.0, .num_targets = 1};
  });
  const ComputationTrace trace = record_trace(model, batch);
  CHECK(trace.steps.back().operation == "mean");
  CHECK(trace.loss == doctest::Approx(mean(square(trace.logits)).item()).epsilon(1e-12));
}

TEST_CASE("logits are the output of the step that computes them, even in a custom loss") {
  const Batch batch = one_example_batch("language_model");
  Model model = model_with_loss([](const Network& network, const Tensor& features,
                                   const Ids& labels, CrossEntropyOptions options) {
    options.label_smoothing = 0.25;
    return cross_entropy(network.logits(features), labels, options);
  });
  const ComputationTrace trace = record_trace(model, batch);
  CHECK(step_at(trace, "output").output.identity() == trace.logits.identity());
  CHECK(trace.loss == cross_entropy(trace.logits, label_ids(batch),
                                    {.ignored_id = no_label, .label_smoothing = 0.25})
                          .mean.item());
}

TEST_CASE("an input that is neither an output nor a parameter is a constant with its values") {
  Model model = model_of("vision_transformer");
  const ComputationTrace trace = record_trace(model, one_example_batch("vision_transformer"));
  const TracedInput& pixels = trace.steps.front().inputs.at(0);
  CHECK_FALSE(pixels.step.has_value());
  CHECK(pixels.parameter.empty());
  CHECK(values_of(pixels.value) == std::vector<double>(16, 0.5));
}

// ---- JSON.

using Json = nlohmann::ordered_json;
/// The trace of a tiny language model on "a b a".
struct Explained {
  Explained()
      : config(small_config("language_model")),
        codec({}, Vocabulary({"a", "b"}), Vocabulary({"a", "b"})),
        model(network_maker(config, {6, 6}), DType::float32, 1),
        batch(inference_batch(find_task(config), {.target = {4, 5, 4, eos_id}})),
        trace(trace_computation(model, network_input(batch, DType::float32), label_ids(batch))) {}

  Json json(bool exact, std::size_t top = 2) const {
    return computation_json({.config = config,
                             .codec = codec,
                             .model = model,
                             .batch = batch,
                             .trace = trace,
                             .origin = "tiny.yaml, initial values",
                             .labels = "the next token"},
                            top, exact);
  }

  Config config;
  TextCodec codec;
  Model model;
  Batch batch;
  ComputationTrace trace;
};

TEST_CASE("the JSON has the values of every step, with all digits or rounded for the page") {
  const Explained explained;
  const Json exact = explained.json(true), rounded = explained.json(false);
  REQUIRE(rounded["steps"].size() == explained.trace.steps.size());
  for (std::size_t i = 0; i < explained.trace.steps.size(); ++i) {
    const TracedStep& step = explained.trace.steps[i];
    const Json& shown = rounded["steps"][i];
    CHECK(shown["operation"] == step.operation);
    CHECK(shown["layer"] == step.layer);
    CHECK(shown["formula"] == step.formula);
    CHECK(shown["gradient_formula"] == step.derivative);
    CHECK(shown == exact["steps"][i]);
    for (const auto& [key, tensor] :
         {std::pair{"output", step.output}, {"gradient", step.gradient}}) {
      const std::size_t number = shown[key];
      const auto values = values_of(tensor);
      CHECK(exact["tensors"][number]["values"] == Json(values));
      const Json& read = rounded["tensors"][number]["values"];
      CHECK(rounded["tensors"][number]["digits"] == 6);
      REQUIRE(read.size() == values.size());
      for (std::size_t j = 0; j < read.size(); ++j) {
        CHECK(std::abs(read[j].get<double>() - values[j]) <= 5.0001e-6 * std::abs(values[j]));
      }
    }
  }
}

TEST_CASE("the JSON contains tokens, ids, labels and the most likely predictions") {
  const Json data = Explained().json(true);
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
  CHECK(Explained().json(false, 1000)["predictions"][0]["top"].size() == 6);
}

TEST_CASE("attention steps have tensors by head, and names of queries and keys") {
  const Explained explained;
  const Json data = explained.json(true);
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
    const Json page = explained.json(false);
    CHECK(page["tensors"][attention["masked"].get<std::size_t>()]["values"][1] == "-inf");
    return;
  }
  FAIL("no step of attention");
}

TEST_CASE("parameters have norms, and small parameters also have values") {
  Explained explained;
  const Json data = explained.json(true);
  const Json& bias = data["parameters"]["output.bias"];
  CHECK(bias["shape"] == Json{6});
  CHECK(bias["norm"] == 0.0);
  CHECK(bias["gradient_norm"] > 0.0);
  CHECK(data["tensors"][bias["gradient"].get<std::size_t>()]["values"] ==
        Json(values_of(explained.model.parameters.find("output.bias")->tensor.grad())));
}

}  // namespace
}  // namespace tapestry
