#include "train/report/computation_page.h"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "data/text/vocabulary.h"
#include "tests/support/values.h"
#include "tests/train/make_model.h"
#include "train/config/config.h"
#include "train/inference/batch_tensors.h"
#include "train/tasks/task_data.h"

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
  Explained()
      : config(small_config()),
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

TEST_CASE("the data have the values of every step, all digits or those of the page") {
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

TEST_CASE("the data have tokens, ids, labels and the most likely predictions") {
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

TEST_CASE("the steps of attention have tensors by head, and names of queries and keys") {
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

TEST_CASE("parameters have norms, and values unless they are large") {
  Explained explained;
  const Json data = explained.json(true);
  const Json& bias = data["parameters"]["output.bias"];
  CHECK(bias["shape"] == Json{6});
  CHECK(bias["norm"] == 0.0);
  CHECK(bias["gradient_norm"] > 0.0);
  CHECK(data["tensors"][bias["gradient"].get<std::size_t>()]["values"] ==
        Json(values_of(explained.model.parameters.find("output.bias")->tensor.gradient())));
}

}  // namespace
}  // namespace tapestry
