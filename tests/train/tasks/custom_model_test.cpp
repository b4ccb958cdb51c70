// SPDX-License-Identifier: BSD-3-Clause
#include "train/tasks/custom_model.h"

#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "layers/encoder_models.h"
#include "train/base/error.h"
#include "train/config/reader.h"

// tests/custom_models and tests/examples/custom_model.sh train custom models. Here a registered
// kind would appear in all other tests of this program.
namespace tapestry {
namespace {

std::unique_ptr<Network> language_model(const Scope& scope, const Config& config,
                                        const NetworkSizes& sizes) {
  return std::make_unique<LanguageModel>(scope, config.model, sizes.target, pad_id);
}

CustomModelOptions options(const std::string& kind) {
  return {.kind = kind, .like = "language_model", .make_network = language_model};
}

TEST_CASE("a custom model has the keys, data and command of the kind in its option `like`") {
  CustomModelOptions masked = options("mine");
  masked.like = "masked_language_model";
  const CustomModel model(masked);
  const Task& like = find_task("masked_language_model");
  CHECK(model.kind().name == "mine");
  CHECK(model.kind().keys == like.kind().keys);
  CHECK(model.sources() == like.sources());
  CHECK(&model.answers() == &like.answers());
  CHECK(&model.inference_layout() == &like.inference_layout());
  CHECK(&model.inference_layout() != &model.layout());
}

std::string mistake_of(const CustomModelOptions& wrong) {
  try {
    register_task(CustomModel(wrong));
  } catch (const CustomModelError& error) {
    CHECK(error.exit_code() == ExitCode::failure);
    CHECK(!error.hint().empty());
    return error.what();
  }
  return "registered";
}

TEST_CASE("invalid options of a custom model, and names that already exist, are rejected") {
  const std::size_t before = all_tasks().size();
  const CustomKey width("model.width", 0, at_least(0), "a key");
  const std::pair<std::string, std::function<void(CustomModelOptions&)>> mistakes[] = {
      {"without a name: kind is empty", [](CustomModelOptions& o) { o.kind = ""; }},
      {"mine: make_network is empty", [](CustomModelOptions& o) { o.make_network = nullptr; }},
      {"mine: like is \"gpt\", expected an existing kind",
       [](CustomModelOptions& o) { o.like = "gpt"; }},
      {"mine: model_keys has model.d_modl, expected keys such as model.d_model",
       [](CustomModelOptions& o) {
         o.model_keys = {{"model.d_model", "model.d_modl"}};
       }},
      {"mine: model_keys has train.steps",
       [](CustomModelOptions& o) {
         o.model_keys = {{"model.d_model", "train.steps"}};
       }},
      {"mine: model_keys has d_model",
       [](CustomModelOptions& o) {
         o.model_keys = {{"model.d_model", "d_model"}};
       }},
      {"classifier: a model.kind with this name already exists",
       [](CustomModelOptions& o) { o.kind = "classifier"; }},
      {"mine: key model.d_model: already exists",
       [](CustomModelOptions& o) {
         o.custom_keys = {CustomKey("model.d_model", false, Flag(), "a key")};
       }},
      {"mine: key model.width: already exists",
       [&](CustomModelOptions& o) {
         o.custom_keys = {width, width};
       }},
      {"mine: key model.width: the default is 0, expected a whole number >= 1",
       [](CustomModelOptions& o) {
         o.custom_keys = {CustomKey("model.width", 0, at_least(1), "a key")};
       }},
  };
  for (const auto& [words, change] : mistakes) {
    CustomModelOptions wrong = options("mine");
    change(wrong);
    CHECK(mistake_of(wrong).starts_with("custom model " + words));
  }
  CHECK(all_tasks().size() == before);
  CHECK(custom_kinds().empty());
}

TEST_CASE("a custom model uses the existing keys that it lists, its custom keys and common keys") {
  CustomModelOptions chosen = options("mine");
  chosen.model_keys = {{"model.d_model"}};
  chosen.custom_keys = {CustomKey("model.gate", false, Flag(), "a key")};
  const CustomModel model(chosen);
  for (const char* used : {"model.d_model", "model.gate", "model.kind", "model.max_length",
                           "train.steps", "data.seed"}) {
    CHECK_MESSAGE(model.kind().uses(used), used);
  }
  CHECK(!model.kind().uses("model.num_heads"));
  CHECK(CustomModel(options("mine")).kind().uses("model.num_heads"));
}

TEST_CASE("contradictory keys are reported unless the kind of model ignores one of them") {
  ConfigKind kind{.name = "mine", .model_keys = {{"model.d_model"}}};
  const Origins origins{{"model.d_model", {.place = {.file = "c"}, .valid = true}}};
  const auto reports = [&](const ConfigKind* used_by) {
    Diagnostics problems;
    ConfigCheck(origins, problems, used_by)
        .reject({"model.d_model", "model.num_heads"}, "they contradict", "change one");
    return !problems.empty();
  };
  CHECK(reports(nullptr));
  CHECK(!reports(&kind));
  kind.model_keys->emplace_back("model.num_heads");
  CHECK(reports(&kind));
}

TEST_CASE("a key that no kind of model defines has no value") {
  CHECK_THROWS_AS(static_cast<void>(Config().custom_value<bool>("model.other")), std::logic_error);
}

TEST_CASE("values of custom keys are parsed by their type") {
  Config config;
  config.custom["model.width"] = std::uint64_t{300};
  config.custom["model.rate"] = 0.5;
  config.custom["model.cell"] = std::string("gru");
  CHECK(config.custom_value<std::uint64_t>("model.width") == 300);
  CHECK(config.custom_value<int>("model.width") == 300);
  CHECK(config.custom_value<float>("model.rate") == 0.5F);
  CHECK(config.custom_value<std::string>("model.cell") == "gru");
  CHECK_THROWS_AS(static_cast<void>(config.custom_value<bool>("model.width")), std::logic_error);
  CHECK_THROWS_AS(static_cast<void>(config.custom_value<double>("model.width")), std::logic_error);
  CHECK_THROWS_AS(static_cast<void>(config.custom_value<std::uint8_t>("model.width")),
                  std::logic_error);
}

}  // namespace
}  // namespace tapestry
