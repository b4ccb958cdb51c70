// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include "tests/support/source_folder.h"
#include "train/config/config.h"
#include "train/config/fields.h"
#include "train/config/kind.h"
#include "train/config/load.h"
#include "train/config/numbers.h"
#include "train/config/rules.h"

namespace tapestry {
namespace {

using Json = nlohmann::json;

std::set<std::string> split(const std::string& words) {
  std::istringstream stream(words);
  return {std::istream_iterator<std::string>(stream), {}};
}

/// The value of a YAML scalar in the core schema of YAML 1.2, which editors use.
Json to_json(const std::string& text) {
  static const std::regex integer("[-+]?[0-9]+"),
      real(R"([-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?)");
  if (text.empty() || text == "null" || text == "~") return nullptr;
  if (text == "true" || text == "false") return text == "true";
  if (std::regex_match(text, integer)) {
    return text.starts_with('-') ? Json(std::stoll(text)) : Json(std::stoull(text));
  }
  if (std::regex_match(text, real)) return std::stod(text);
  return text;
}

Json to_json(const YAML::Node& node) {
  if (node.IsMap()) {
    Json map = Json::object();
    for (const auto& entry : node) map[entry.first.as<std::string>()] = to_json(entry.second);
    return map;
  }
  if (node.IsSequence()) {
    Json list = Json::array();
    for (const auto& item : node) list.push_back(to_json(item));
    return list;
  }
  if (node.IsScalar()) return node.Tag() == "!" ? Json(node.Scalar()) : to_json(node.Scalar());
  return nullptr;
}

bool has_type(const Json& value, const std::string& type) {
  if (type == "integer") {
    return value.is_number_integer() ||
           (value.is_number() && value.get<double>() == std::floor(value.get<double>()));
  }
  return (type == "number" && value.is_number()) || (type == "string" && value.is_string()) ||
         (type == "array" && value.is_array()) || (type == "boolean" && value.is_boolean()) ||
         (type == "object" && value.is_object());
}

/// Whether a value is valid according to a schema. Supports only the keywords that config_schema()
/// uses; any other keyword fails the test.
bool accepts(const Json& schema, const Json& value) {
  static const std::set<std::string> words = split(
      "$schema title type additionalProperties patternProperties properties enum minimum maximum "
      "exclusiveMinimum exclusiveMaximum pattern anyOf items description default allOf if then "
      "else required");
  for (const auto& entry : schema.items()) {
    const std::string word = entry.key();
    CAPTURE(word);
    CHECK(words.contains(word));
  }
  if (schema.contains("type")) {
    const Json& type = schema["type"];
    const Json types = type.is_array() ? type : Json::array({type});
    if (std::ranges::none_of(types, [&](const Json& t) { return has_type(value, t); }))
      return false;
  }
  const auto number = [&](const char* word, auto compare) {
    return !schema.contains(word) || !value.is_number() || compare(value, schema[word]);
  };
  if (!number("minimum", std::greater_equal<>()) || !number("maximum", std::less_equal<>()) ||
      !number("exclusiveMinimum", std::greater<>()) || !number("exclusiveMaximum", std::less<>())) {
    return false;
  }
  if (schema.contains("enum") && std::ranges::find(schema["enum"], value) == schema["enum"].end()) {
    return false;
  }
  if (schema.contains("pattern") && value.is_string() &&
      !std::regex_search(value.get<std::string>(),
                         std::regex(schema["pattern"].get<std::string>()))) {
    return false;
  }
  const auto accepts_item = [&](const Json& item) { return accepts(schema["items"], item); };
  const auto accepts_value = [&](const Json& one) { return accepts(one, value); };
  if (schema.contains("items") && value.is_array() && !std::ranges::all_of(value, accepts_item)) {
    return false;
  }
  if (schema.contains("anyOf") && std::ranges::none_of(schema["anyOf"], accepts_value)) {
    return false;
  }
  if (schema.contains("allOf") && !std::ranges::all_of(schema["allOf"], accepts_value)) {
    return false;
  }
  if (schema.contains("if")) {
    const char* branch = accepts(schema["if"], value) ? "then" : "else";
    if (schema.contains(branch) && !accepts(schema[branch], value)) return false;
  }
  if (schema.contains("required") && !std::ranges::all_of(schema["required"], [&](const Json& key) {
        return value.contains(key.get<std::string>());
      })) {
    return false;
  }
  if (!schema.contains("properties")) return true;
  const bool closed = schema.contains("additionalProperties");
  return std::ranges::all_of(value.items(), [&](const auto& entry) {
    const Json& keys = schema["properties"];
    const bool ignored = schema.contains("patternProperties") && entry.key().starts_with("x-");
    return keys.contains(entry.key()) ? accepts(keys[entry.key()], entry.value())
                                      : ignored || !closed;
  });
}

}  // namespace

TEST_CASE("the JSON Schema accepts every shipped config") {
  const Json schema = Json::parse(config_schema());
  std::size_t configs = 0;
  for (const auto& file : std::filesystem::directory_iterator(test::source_folder() / "configs")) {
    if (file.path().extension() != ".yaml") continue;
    CAPTURE(file.path().string());
    CHECK(accepts(schema, to_json(YAML::LoadFile(file.path().string()))));
    ++configs;
  }
  CHECK(configs >= 10);
  CHECK_FALSE(accepts(schema, {{"modell", {{"d_model", 64}}}}));
  CHECK_FALSE(accepts(schema, {{"model", {{"d_modell", 64}}}}));
  CHECK_FALSE(accepts(schema, {{"model", 64}}));
}

TEST_CASE("the JSON Schema accepts a value of a key if and only if the program accepts it") {
  const Json schema = Json::parse(config_schema());
  std::set<std::string> values = split(
      "0 1 2 3 64 65536 1000001 1.5 -1 -0.5 0.5 0.99 0.98 1e-3 100.5 abc true false none dropout "
      "5% 2.5% 100% 0% 0.0% 101% % 10m 90s 1d12h 1m1h 90 s auto adam yes bleu avx2 ~/x a/b null "
      "inf nan 0x10 1,000 18446744073709551615 $HOME/x ${A}/x $5 a$b");
  values.insert("");
  std::size_t accepted = 0, rejected = 0;
  for (const Field& field : fields_of(Config())) {
    const Domain& domain = field.domain;
    const Json& key = schema.at("properties")
                          .at(std::string(field.section))
                          .at("properties")
                          .at(std::string(field.key));
    CHECK(key["description"].get<std::string>().starts_with(field.meaning));
    CHECK(accepts(key, key["default"]));
    for (const std::string& text : values) {
      CAPTURE(field.path());
      CAPTURE(text);
      const Json json = to_json(text);
      // The program rejects a missing value, or null, before Domain::parse().
      const bool valid = !json.is_null() && std::holds_alternative<FieldValue>(domain.parse(text));
      const bool is_percentage = domain.is<StepCount>() && parse_percentage(text).has_value();
      CHECK(accepts(key, json) == (valid || is_percentage));
      ++(valid || is_percentage ? accepted : rejected);
    }
  }
  CHECK(accepted >= 300);
  CHECK(rejected >= 300);
}

TEST_CASE("the JSON Schema accepts a dumped config of each kind of model") {
  const Json schema = Json::parse(config_schema());
  for (const ConfigKind& kind : model_kinds()) {
    CAPTURE(kind.name);
    Config config;
    config.model_kind = kind.name;
    config.data.task = data_tasks_for(kind.name).front();
    CHECK(accepts(schema, to_json(YAML::Load(dump_config(config)))));
  }
}

TEST_CASE("the JSON Schema rejects keys, data and scores that a kind of model does not have") {
  const Json schema = Json::parse(config_schema());
  const auto accepted = [&](const std::string& text) {
    return accepts(schema, to_json(YAML::Load(text)));
  };
  CHECK(accepted("{}"));
  CHECK(accepted("decoding: {beam_size: 4}"));
  CHECK(accepted("model: {kind: seq2seq}\ndecoding: {beam_size: 4}"));
  const std::string tagger = "data: {task: tagged_text, train_text: a}\nmodel: {kind: tagger";
  CHECK(accepted(tagger + "}"));
  CHECK_FALSE(accepted(tagger + "}\ndecoding: {beam_size: 4}"));
  CHECK(accepted(tagger + "}\ndecoding: {beam_size: 1}"));  // the default
  CHECK_FALSE(accepted(tagger + ", num_decoder_layers: 3}"));
  CHECK(accepted(tagger + ", num_encoder_layers: 3}"));
  CHECK_FALSE(accepted("optimizer: {momentum: 0.5}"));
  CHECK(accepted("optimizer: {kind: sgd, momentum: 0.5}"));
  CHECK_FALSE(accepted("data: {train_text: a}"));
  CHECK_FALSE(accepted("model: {kind: tagger}"));  // data.task is copy by default
  CHECK_FALSE(accepted("data: {task: copy}\nmodel: {kind: tagger}"));
  CHECK_FALSE(accepted("data: {task: toy_sentences}"));  // model.kind is seq2seq by default
  CHECK(accepted("train: {best_metric: bleu}"));
  CHECK_FALSE(accepted("train: {best_metric: span_f1}"));
  CHECK(accepted(tagger + "}\ntrain: {best_metric: span_f1}"));
  CHECK_FALSE(accepted(tagger + "}\ntrain: {best_metric: bleu}"));
}

TEST_CASE("the JSON Schema rejects numbers outside the range of their type") {
  const Json schema = Json::parse(config_schema());
  CHECK(accepts(schema, {{"train", {{"seed", 18446744073709551615U}}}}));
  CHECK_FALSE(accepts(schema, {{"train", {{"seed", 1e20}}}}));
  CHECK(accepts(schema, {{"model", {{"skip_scale", 1e300}}}}));
  CHECK_FALSE(accepts(schema, {{"model", {{"skip_scale", INFINITY}}}}));
}

}  // namespace tapestry
