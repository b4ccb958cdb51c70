// SPDX-License-Identifier: BSD-3-Clause
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
#include "train/config/keys.h"
#include "train/config/load.h"
#include "train/config/yaml_text.h"

namespace tapestry {
namespace {

std::string path_of(const std::string& name) {
  return test::source_folder() / "configs" / (name + ".yaml");
}

/// The names of the files in configs/.
std::vector<std::string> shipped_configs() {
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(test::source_folder() / "configs")) {
    if (file.path().extension() == ".yaml") names.push_back(file.path().stem());
  }
  return names;
}

/// Overrides for the data files that users must provide.
std::vector<std::string> files_of(const std::string& name) {
  if (name == "tagging") return {"data.train_text=/a"};
  if (name != "parallel") return {};
  return {"data.train_source=/a", "data.train_target=/b", "data.validation_source=/c",
          "data.validation_target=/d"};
}

Config load_shipped(const std::string& name, const std::vector<std::string>& overrides = {}) {
  std::vector<std::string> all = files_of(name);
  all.insert(all.end(), overrides.begin(), overrides.end());
  return load_config(path_of(name), all);
}

/// Default values by `section.key`.
std::map<std::string, std::string> true_defaults() {
  std::map<std::string, std::string> defaults;
  for (const ConfigKey& key : config_keys()) {
    defaults[key.section + "." + key.key] = key.default_value;
  }
  return defaults;
}

bool same_value(const std::string& a, const std::string& b) {
  const Domain numbers = not_negative();
  const Parsed number_a = numbers.parse(a), number_b = numbers.parse(b);
  const auto* value_a = std::get_if<FieldValue>(&number_a);
  const auto* value_b = std::get_if<FieldValue>(&number_b);
  return value_a != nullptr && value_b != nullptr ? *value_a == *value_b : a == b;
}

const std::string default_prefix = "default ";

/// The key of a line such as `  steps: 9   # ...` or `  # steps: 9   # ...`; empty for other lines.
std::string key_at_start(const std::string& line) {
  const std::size_t start = line.starts_with("  # ") ? 4 : 2;
  const std::size_t colon = line.find(": ");
  const bool has_comment = line.find('#', start) != std::string::npos;
  if (!line.starts_with("  ") || colon == std::string::npos || !has_comment) return {};
  const std::string key = line.substr(start, colon - start);
  return key.find_first_of(" #") == std::string::npos ? key : "";
}

/// The default in the comment after each key, on the same line or the next, by `section.key`.
/// Includes keys that are commented out.
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
  const std::string path = path_of(name);
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

TEST_CASE("every config loads if its required files are specified") {
  for (const std::string& name : shipped_configs()) {
    CAPTURE(name);
    CHECK(load_shipped(name).train.run_dir == "runs/" + name);
    if (!files_of(name).empty()) CHECK_THROWS_AS(load_config(path_of(name)), ConfigError);
  }
}

TEST_CASE("the config for fine-tuning has the sizes of the pretrained model") {
  const TransformerOptions masked = load_shipped("toy_masked").model;
  const TransformerOptions fine = load_shipped("toy_agreement").model;
  CHECK(fine.d_model == masked.d_model);
  CHECK(fine.num_encoder_layers == masked.num_encoder_layers);
  CHECK(fine.d_ff == masked.d_ff);
  CHECK(fine.max_length == masked.max_length);
  CHECK(fine.positions == masked.positions);
}

TEST_CASE("the schedule of every config scales with train.steps") {
  for (const std::string& name : shipped_configs()) {
    CAPTURE(name);
    const Config plain = load_shipped(name);
    CHECK(plain.schedule.warmup_steps > 0);
    for (const std::size_t steps : {std::size_t{1}, std::size_t{100}, 10 * plain.train.steps}) {
      const Config config = load_shipped(name, {"train.steps=" + std::to_string(steps)});
      const double factor = static_cast<double>(steps) / static_cast<double>(plain.train.steps);
      const auto check_share = [&](std::size_t now, std::size_t before) {
        CHECK(std::abs(static_cast<double>(now) - static_cast<double>(before) * factor) <= 1.0);
      };
      check_share(config.schedule.warmup_steps, plain.schedule.warmup_steps);
      check_share(config.schedule.decay_steps, plain.schedule.decay_steps);
    }
  }
}

TEST_CASE("percentages in the configs resolve to the expected numbers of steps") {
  const std::map<std::string, std::size_t> warmup_steps = {
      {"copy", 200},       {"reverse", 200},          {"sort", 200},    {"toy_translation", 200},
      {"digits_vit", 100}, {"shakespeare_char", 100}, {"tagging", 200}, {"toy_agreement", 20},
      {"toy_masked", 100}};
  for (const auto& row : warmup_steps) {
    CAPTURE(row.first);
    CHECK(load_shipped(row.first).schedule.warmup_steps == row.second);
  }
  CHECK(load_shipped("copy").schedule.decay_steps == 2500);
  CHECK(load_shipped("toy_masked").train.validate_every == 4000);
}

TEST_CASE("every key in the configs has a comment with its actual default") {
  for (const std::string& name : shipped_configs()) check_comments(name);
}

TEST_CASE("the config for parallel text lists every key for a data file") {
  const auto commented = commented_defaults(path_of("parallel"));
  for (const char* key : {"train_source", "train_target", "validation_source", "validation_target",
                          "test_source", "test_target"}) {
    CHECK_MESSAGE(commented.contains(std::string("data.") + key), key);
  }
}

}  // namespace tapestry
