#include "train/tasks/custom_model.h"

#include <doctest/doctest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "layers/encoder_models.h"
#include "train/base/error.h"
#include "train/config/reader.h"

// tests/custom_models and tests/examples/custom_model.sh train such models; a kind that is
// registered here would appear in all other tests of this program.
namespace tapestry {
namespace {

std::unique_ptr<Network> language_model(const Scope& scope, const Config& config,
                                        const NetworkSizes& sizes) {
  return std::make_unique<LanguageModel>(scope, config.model, sizes.target, pad_id);
}

CustomModelOptions options(const std::string& kind) {
  return {.kind = kind, .like = "language_model", .make_network = language_model};
}

TEST_CASE("a custom model has the keys, data and command of the kind that it is like") {
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
    CHECK(error.exit_code() == ExitCode::bug);
    CHECK(!error.hint().empty());
    return error.what();
  }
  return "registered";
}

TEST_CASE("a custom model needs a name, a network and a kind that it is like") {
  CustomModelOptions unnamed = options("");
  CHECK(mistake_of(unnamed) ==
        "custom model without a name: kind is empty, expected a value of model.kind");
  CustomModelOptions none = options("mine");
  none.make_network = nullptr;
  CHECK(mistake_of(none) == "custom model mine: make_network is empty, expected a function");
  CustomModelOptions unknown = options("mine");
  unknown.like = "gpt";
  CHECK(mistake_of(unknown) == "custom model mine: like is \"gpt\", expected an existing kind");
}

TEST_CASE("a custom model lists keys of the model section that exist") {
  for (const char* path : {"model.d_modl", "train.steps", "d_model"}) {
    CustomModelOptions wrong = options("mine");
    wrong.model_keys = {{"model.d_model", path}};
    CHECK(mistake_of(wrong) == "custom model mine: model_keys has " + std::string(path) +
                                   ", expected keys such as model.d_model");
  }
}

TEST_CASE("a custom model uses the keys that it lists, its own and the common ones") {
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

TEST_CASE("existing kinds and keys, and invalid keys, cannot be registered") {
  const std::size_t before = all_tasks().size();
  CHECK(mistake_of(options("classifier")) ==
        "custom model classifier: there is a model.kind of this name already");
  const auto refusal = [](const std::vector<CustomKey>& keys) {
    CustomModelOptions with_keys = options("mine");
    with_keys.custom_keys = keys;
    return mistake_of(with_keys);
  };
  CHECK(refusal({CustomKey("model.d_model", false, Flag(), "a key")}) ==
        "custom model mine: key model.d_model: exists already");
  const CustomKey width("model.width", 0, at_least(0), "a key");
  CHECK(refusal({width, width}) == "custom model mine: key model.width: exists already");
  CHECK(refusal({CustomKey("model.width", 0, at_least(1), "a key")}) ==
        "custom model mine: key model.width: the default is 0, expected a whole number >= 1");
  CHECK(all_tasks().size() == before);
  CHECK(custom_kinds().empty());
}

TEST_CASE("a contradiction is reported unless the kind of model does not use one of its keys") {
  ConfigKind kind{.name = "mine", .model_keys = {{"model.d_model"}}};
  const Origins origins{{"model.d_model", {.place = {.file = "c"}, .valid = true}}};
  const auto reports = [&](const ConfigKind* used_by) {
    Diagnostics problems;
    ConfigCheck(origins, problems, used_by)
        .refuse({"model.d_model", "model.num_heads"}, "they contradict", "change one");
    return !problems.empty();
  };
  CHECK(reports(nullptr));
  CHECK(!reports(&kind));
  kind.model_keys->emplace_back("model.num_heads");
  CHECK(reports(&kind));
}

TEST_CASE("a key that no kind of model has has no value") {
  CHECK_THROWS_WITH_AS(static_cast<void>(Config().custom_value<bool>("model.other")),
                       "model.other: no registered kind has custom keys", std::logic_error);
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
  CHECK_THROWS_WITH_AS(static_cast<void>(config.custom_value<bool>("model.width")),
                       "model.width: the key has another type", std::logic_error);
  CHECK_THROWS_WITH_AS(static_cast<void>(config.custom_value<double>("model.width")),
                       "model.width: the key has another type", std::logic_error);
  CHECK_THROWS_WITH_AS(static_cast<void>(config.custom_value<std::uint8_t>("model.width")),
                       "model.width: the type is too small for the value 300", std::logic_error);
}

}  // namespace
}  // namespace tapestry
