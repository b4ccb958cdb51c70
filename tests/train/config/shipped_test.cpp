#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "tests/support/source_folder.h"
#include "train/config/config.h"
#include "train/config/domain.h"
#include "train/config/error.h"
#include "train/config/yaml_text.h"

namespace tapestry {
namespace {

const std::string configs_folder = test::source_folder() / "configs/";

/// Defaults by `section.key`.
std::map<std::string, std::string> true_defaults() {
  std::map<std::string, std::string> defaults;
  for (const ConfigKey& key : config_keys()) {
    defaults[key.section + "." + key.key] = key.default_value;
  }
  return defaults;
}

bool same_value(const std::string& a, const std::string& b) {
  const auto number_a = not_negative().parse(a);
  const auto number_b = not_negative().parse(b);
  const bool numbers = number_a.index() == 0 && number_b.index() == 0;
  return numbers ? std::get<double>(number_a) == std::get<double>(number_b) : a == b;
}

const std::string default_prefix = "default ";

/// The key of a line such as `  steps: 9   # ...` or `  # steps: 9   # ...`, or nothing.
std::string key_at_start(const std::string& line) {
  const std::size_t start = line.starts_with("  # ") ? 4 : 2;
  const std::size_t colon = line.find(": ");
  const bool has_comment = line.find('#', start) != std::string::npos;
  if (!line.starts_with("  ") || colon == std::string::npos || !has_comment) return {};
  const std::string key = line.substr(start, colon - start);
  return key.find_first_of(" #") == std::string::npos ? key : "";
}

/// The default that the comment behind each key names, on its line or the next, by `section.key`.
/// Keys that are commented out count too.
std::map<std::string, std::string> commented_defaults(const std::string& path) {
  std::map<std::string, std::string> defaults;
  std::ifstream file(path);
  std::string section, key;
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    const bool opens_section = colon + 1 == line.size() && line.find(' ') == std::string::npos;
    if (opens_section) section = line.substr(0, colon);
    const std::string name = key_at_start(line);
    if (!name.empty()) key = section + "." + name;
    const std::size_t at = line.rfind(default_prefix);
    const bool names_default = !key.empty() && at != std::string::npos;
    if (names_default) defaults.try_emplace(key, line.substr(at + default_prefix.size()));
  }
  return defaults;
}

void check_comments(const std::string& name) {
  const std::string path = configs_folder + name;
  const std::map<std::string, std::string> commented = commented_defaults(path);
  const std::map<std::string, std::string> defaults = true_defaults();
  for (const auto& comment : commented) {
    const std::string& key = comment.first;
    REQUIRE_MESSAGE(defaults.contains(key), name, ": ", key);
    CHECK_MESSAGE(same_value(comment.second, defaults.at(key)), name, ": ", key);
  }
  Diagnostics errors;
  YamlText yaml(path, read_config_file(path), errors);
  for (const YamlEntry& section : yaml.sections()) {
    for (const YamlEntry& entry : yaml.entries(section.key, section.value)) {
      CHECK_MESSAGE(commented.contains(section.key + "." + entry.key), name, ": ", entry.key);
    }
  }
}

}  // namespace

TEST_CASE("the configs of the generated tasks load, each with its task") {
  CHECK(load_config(configs_folder + "copy.yaml").data.task == "copy");
  CHECK(load_config(configs_folder + "reverse.yaml").data.task == "reverse");
  CHECK(load_config(configs_folder + "sort.yaml").data.task == "sort");
  CHECK(load_config(configs_folder + "toy_translation.yaml").data.task == "toy_translation");
  CHECK(load_config(configs_folder + "toy_masked.yaml").data.task == "toy_sentences");
  CHECK(load_config(configs_folder + "toy_agreement.yaml").data.task == "toy_agreement");
  CHECK(load_config(configs_folder + "copy.yaml").train.run_dir == "runs/copy");
}

TEST_CASE("the config for parallel text requires its files and loads with them") {
  const std::string path = configs_folder + "parallel.yaml";
  try {
    load_config(path);
    FAIL("expected a ConfigError");
  } catch (const ConfigError& error) {
    REQUIRE(error.diagnostics().size() == 1);
    CHECK(error.diagnostics()[0].message ==
          "task parallel_text needs data.train_source, data.train_target, data.validation_source, "
          "data.validation_target");
  }
  const Config config = load_config(
      path, {"data.train_source=/a", "data.train_target=/b", "data.validation_source=/c",
             "data.validation_target=/d", "data.test_source=/e", "data.test_target=/f"});
  CHECK(config.data.task == "parallel_text");
  CHECK(config.data.pairs.test_target == "/f");
}

TEST_CASE("the configs for a text and for images load, each with its kind of model") {
  CHECK(load_config(configs_folder + "shakespeare_char.yaml").model_kind == "language_model");
  CHECK(load_config(configs_folder + "digits_vit.yaml").model_kind == "vision_transformer");
}

TEST_CASE("the config for tagging requires its file and loads with it") {
  CHECK_THROWS_AS(load_config(configs_folder + "tagging.yaml"), ConfigError);
  const Config config = load_config(configs_folder + "tagging.yaml", {"data.train_text=/a"});
  CHECK(config.model_kind == "tagger");
  CHECK(config.data.task == "tagged_text");
}

TEST_CASE("a config for fine-tuning has the sizes of the pretrained model") {
  const TransformerOptions masked = load_config(configs_folder + "toy_masked.yaml").model;
  const TransformerOptions fine = load_config(configs_folder + "toy_agreement.yaml").model;
  CHECK(fine.d_model == masked.d_model);
  CHECK(fine.num_encoder_layers == masked.num_encoder_layers);
  CHECK(fine.d_ff == masked.d_ff);
  CHECK(fine.max_length == masked.max_length);
  CHECK(fine.positions == masked.positions);
}

TEST_CASE("train.steps alone shortens and lengthens every config") {
  for (const auto& file : std::filesystem::directory_iterator(configs_folder)) {
    if (file.path().extension() != ".yaml") continue;
    CAPTURE(file.path().string());
    const bool pairs = file.path().stem() == "parallel";
    std::vector<std::string> data;
    if (pairs) {
      data = {"data.train_source=/a", "data.train_target=/b", "data.validation_source=/c",
              "data.validation_target=/d"};
    }
    if (file.path().stem() == "tagging") data = {"data.train_text=/a"};
    const auto loaded = [&](std::size_t steps) {
      std::vector<std::string> overrides = data;
      if (steps > 0) overrides.push_back("train.steps=" + std::to_string(steps));
      return load_config(file.path(), overrides);
    };
    const Config plain = loaded(0);
    const auto same_share = [&](std::size_t steps) {
      const Config config = loaded(steps);
      const double factor = static_cast<double>(steps) / static_cast<double>(plain.train.steps);
      const auto expected = [&](std::size_t number) {
        return doctest::Approx(static_cast<double>(number) * factor).epsilon(0.001);
      };
      CHECK(std::abs(static_cast<double>(config.schedule.warmup_steps) -
                     static_cast<double>(plain.schedule.warmup_steps) * factor) <= 1.0);
      if (plain.schedule.decay_steps != 0) {
        CHECK(static_cast<double>(config.schedule.decay_steps) ==
              expected(plain.schedule.decay_steps));
      }
    };
    CHECK(plain.schedule.warmup_steps > 0);
    same_share(1);
    same_share(100);
    same_share(10 * plain.train.steps);
  }
}

TEST_CASE("the percentages in the configs give the numbers of steps of their results") {
  const auto warmup = [](const char* name, const std::vector<std::string>& overrides = {}) {
    return load_config(configs_folder + name, overrides).schedule.warmup_steps;
  };
  CHECK(warmup("copy.yaml") == 200);
  CHECK(warmup("reverse.yaml") == 200);
  CHECK(warmup("sort.yaml") == 200);
  CHECK(warmup("toy_translation.yaml") == 200);
  CHECK(warmup("digits_vit.yaml") == 100);
  CHECK(warmup("shakespeare_char.yaml") == 100);
  CHECK(warmup("tagging.yaml", {"data.train_text=/a"}) == 200);
  CHECK(warmup("toy_agreement.yaml") == 20);
  CHECK(warmup("toy_masked.yaml") == 100);
  CHECK(load_config(configs_folder + "copy.yaml").schedule.decay_steps == 2500);
  CHECK(load_config(configs_folder + "toy_masked.yaml").train.validate_every == 4000);
}

TEST_CASE("every key in the configs has a comment that names its true default") {
  for (const auto& file : std::filesystem::directory_iterator(configs_folder)) {
    if (file.path().extension() == ".yaml") check_comments(file.path().filename().string());
  }
}

TEST_CASE("the config for parallel text shows every file it may be given") {
  const auto commented = commented_defaults(configs_folder + "parallel.yaml");
  for (const char* key : {"train_source", "train_target", "validation_source", "validation_target",
                          "test_source", "test_target"}) {
    CHECK_MESSAGE(commented.contains(std::string("data.") + key), key);
  }
}

}  // namespace tapestry
