// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "train/config/fields.h"
#include "train/config/keys.h"
#include "train/config/kind.h"
#include "train/config/rules.h"

namespace tapestry {
namespace {

using Json = nlohmann::ordered_json;

Json to_schema(const WholeNumber& domain) {
  return {{"type", "integer"}, {"minimum", domain.low}, {"maximum", domain.high}};
}

Json to_schema(const StepCount& domain) {
  const Json percentage = {{"type", "string"},
                           {"pattern", R"(^(?!0(\.0+)?%)(100(\.0+)?|[1-9]?[0-9](\.[0-9]+)?)%$)"}};
  return {{"anyOf", {to_schema(domain.number), percentage}}};
}

Json to_schema(const RealNumber& domain) {
  Json schema = {{"type", "number"}};
  if (!std::isinf(domain.low)) {
    schema[domain.has_low ? "minimum" : "exclusiveMinimum"] = domain.low;
  }
  if (std::isinf(domain.high)) {
    schema["maximum"] = std::numeric_limits<double>::max();  // rejects .inf
  } else {
    schema[domain.has_high ? "maximum" : "exclusiveMaximum"] = domain.high;
  }
  return schema;
}

Json to_schema(const NumberOrWord& domain) {
  return {{"anyOf", {to_schema(domain.number), {{"enum", {domain.word}}}}}};
}

Json to_schema(const Duration&) {
  return {{"type", "string"}, {"pattern", "^(?=.)([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?$"}};
}

Json to_schema(const Flag&) { return {{"type", "boolean"}}; }

/// Allows numbers and booleans in addition to strings, since YAML reads an unquoted name such as
/// 2020 as a number.
Json to_schema(const Text&) { return {{"type", {"string", "number", "boolean"}}}; }

Json to_schema(const FilePath&) {
  Json schema = to_schema(Text());
  schema["pattern"] = path_pattern;
  return schema;
}

Json to_schema(const FolderPath&) { return to_schema(FilePath()); }
Json to_schema(const RunPath&) { return to_schema(FilePath()); }

/// Schema of one value or a list of values.
Json one_or_list(const Json& item) {
  return {{"anyOf", {item, {{"type", "array"}, {"items", item}}}}};
}

Json to_schema(const FilePaths&) { return one_or_list(to_schema(FilePath())); }

Json to_schema(const WholeNumbers& domain) { return one_or_list(to_schema(domain.number)); }

Json to_schema(const OneOf& domain) { return {{"enum", domain.names}}; }

Json schema_of(const Domain& domain) {
  return std::visit([](const auto& each) { return to_schema(each); }, domain.any());
}

Json value_to_json(const Field& field) {
  return std::visit(
      [&]<class T>(const T& each) -> Json {
        if constexpr (std::is_same_v<T, FileList>) {
          return each.names();
        } else if constexpr (std::is_same_v<T, std::optional<double>>) {
          return each ? Json(*each) : Json(field.printed());
        } else if constexpr (std::is_same_v<T, std::chrono::seconds>) {
          return field.printed();
        } else {
          return each;
        }
      },
      field.value);
}

std::string description(const Field& field) {
  std::string text(field.meaning);
  const Condition& condition = field.condition;
  if (!condition.key.empty()) {
    text += "; only with " + condition.key + ": " + list_in_words(condition.values);
  }
  return text;
}

// ---- Rules between keys, expressed as lists of values.

/// The values that a key may have.
struct AllowedValues {
  std::string path;  ///< "model.kind"
  Json values;       ///< a JSON list of values
};

/// Defaults by path.
using Defaults = std::map<std::string, Json>;

/// A schema of configs that either omit a key or give it one of the values.
Json missing_or_has(const AllowedValues& allowed) {
  const std::size_t dot = allowed.path.find('.');
  const std::string section = allowed.path.substr(0, dot), key = allowed.path.substr(dot + 1);
  const Json of_section = {{"properties", {{key, {{"enum", allowed.values}}}}}};
  return {{"properties", {{section, of_section}}}};
}

/// A schema of configs that give a key one of the values. A missing key has its default.
Json has(const AllowedValues& allowed, const Defaults& defaults) {
  Json schema = missing_or_has(allowed);
  const Json& values = allowed.values;
  if (std::ranges::find(values, defaults.at(allowed.path)) != values.end()) return schema;
  const std::size_t dot = allowed.path.find('.');
  const std::string section = allowed.path.substr(0, dot);
  schema["properties"][section]["required"] = {allowed.path.substr(dot + 1)};
  schema["required"] = {section};
  return schema;
}

/// Adds the rule for a key with a condition: if the condition does not hold, the key must be
/// missing or have its default.
void add_use(Json& rules, const Field& field, const Defaults& defaults) {
  if (field.condition.key.empty()) return;
  const Json condition = has({field.condition.key, field.condition.values}, defaults);
  AllowedValues allowed{field.path(), Json::array({defaults.at(field.path())})};
  if (allowed.values[0] == Json::array()) allowed.values.push_back("");  // an empty list of files
  const Json otherwise = missing_or_has(allowed);
  for (Json& rule : rules) {
    if (rule["if"] != condition) continue;
    rule["else"].merge_patch(otherwise);
    return;
  }
  rules.push_back({{"if", condition}, {"else", otherwise}});
}

/// Adds the rule for a kind of model: the data tasks and best metrics that it supports.
void add_kind(Json& rules, const ConfigKind& kind, const Defaults& defaults) {
  const Json tasks = has({"data.task", data_tasks_for(kind.name)}, defaults);
  const Json metrics = has({"train.best_metric", best_metrics_of(kind)}, defaults);
  rules.push_back({{"if", has({"model.kind", {kind.name}}, defaults)},
                   {"then", {{"allOf", {tasks, metrics}}}}});
}

}  // namespace

std::string config_schema() {
  Json sections = Json::object();
  Defaults defaults;
  const std::vector<Field> fields = fields_of(Config());
  for (const Field& field : fields) {
    Json& section = sections[std::string(field.section)];
    if (section.is_null()) {
      section = {{"type", "object"}, {"additionalProperties", false}, {"properties", {}}};
    }
    Json key = schema_of(field.domain);
    key["description"] = description(field);
    key["default"] = defaults[field.path()] = value_to_json(field);
    section["properties"][std::string(field.key)] = std::move(key);
  }
  Json rules = Json::array();
  for (const Field& field : fields) add_use(rules, field, defaults);
  for (const ConfigKind& kind : model_kinds()) add_kind(rules, kind, defaults);
  const Json schema = {{"$schema", "http://json-schema.org/draft-07/schema#"},
                       {"title", "Config of tapestry"},
                       {"type", "object"},
                       {"additionalProperties", false},
                       {"patternProperties", {{"^x-", {{"type", "object"}}}}},
                       {"properties", std::move(sections)},
                       {"allOf", std::move(rules)}};
  return schema.dump(2);
}

}  // namespace tapestry
