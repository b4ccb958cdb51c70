#include "train/tasks/custom_model.h"

#include <doctest/doctest.h>

#include <memory>
#include <stdexcept>
#include <string>

#include "layers/encoder_models.h"

// tests/examples/custom_model.sh trains such a model; a kind that is registered here would appear in
// all other tests of this program.
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
  CHECK(model.command() == like.command());
  CHECK(&model.inference_layout() == &like.inference_layout());
  CHECK(&model.inference_layout() != &model.layout());
}

TEST_CASE("a custom model needs a network and a kind whose answers fit any network") {
  CustomModelOptions none = options("mine");
  none.make_network = nullptr;
  CHECK_THROWS_WITH_AS(CustomModel{none},
                       "CustomModel: mine has no make_network, expected a function",
                       std::invalid_argument);
  CustomModelOptions translation = options("mine");
  translation.like = "seq2seq";
  CHECK_THROWS_WITH_AS(CustomModel{translation},
                       "CustomModel: mine is like seq2seq, whose answers need a Transformer; "
                       "expected another kind",
                       std::invalid_argument);
  CustomModelOptions unknown = options("mine");
  unknown.like = "gpt";
  CHECK_THROWS_WITH_AS(CustomModel{unknown}, "model.kind: there is no kind gpt",
                       std::invalid_argument);
}

TEST_CASE("a kind or key that exists already is not registered") {
  const std::size_t before = all_tasks().size();
  CHECK_THROWS_WITH_AS(register_task(CustomModel(options("classifier"))),
                       "register_task: there is a kind classifier already", std::invalid_argument);
  const auto refusal = [](std::string_view section, std::string_view key) {
    CustomModelOptions with_key = options("mine");
    with_key.custom_keys = {
        {.section = section, .key = key, .domain = Flag(), .initial = true, .meaning = "a key"}};
    try {
      register_task(CustomModel(with_key));
    } catch (const std::invalid_argument& error) {
      return std::string(error.what());
    }
    return std::string("registered");
  };
  CHECK(refusal("model", "d_model") ==
        "register_task: mine has the key model.d_model, which exists already");
  CHECK(refusal("models", "width") ==
        "register_task: mine has the key models.width, expected a section data, model, optimizer, "
        "schedule or train");
  CHECK(all_tasks().size() == before);
}

TEST_CASE("a key that no kind has has no value") {
  CHECK_THROWS_WITH_AS(Config().custom_value<bool>("model.other"),
                       "model.other: no registered kind has this key", std::logic_error);
}

TEST_CASE("values of own keys are read by their type") {
  Config config;
  config.custom["model.width"] = std::uint64_t{7};
  CHECK(config.custom_value<std::uint64_t>("model.width") == 7);
  CHECK_THROWS_WITH_AS(config.custom_value<bool>("model.width"),
                       "model.width: the key has another type", std::logic_error);
}

}  // namespace
}  // namespace tapestry
