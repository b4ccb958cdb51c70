#include "train/config/schema.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "train/config/fields.h"
#include "train/config/kind.h"
#include "train/config/rules.h"

namespace tapestry {
namespace {

using Json = nlohmann::ordered_json;

// ---- Domains.

Json to_schema(const WholeNumber& domain) {
  return {{"type", "integer"}, {"minimum", domain.low}, {"maximum", domain.high}};
}

Json to_schema(const StepCount& domain) {
  const Json percentage = {{"type", "string"},
                           {"pattern", R"(^(?!0(\.0+)?%)(100(\.0+)?|[1-9]?[0-9](\.[0-9]+)?)%$)"}};
  return {{"anyOf", {to_schema(static_cast<const WholeNumber&>(domain)), percentage}}};
}

Json to_schema(const RealNumber& domain) {
  Json schema = {{"type", "number"}};
  if (!std::isinf(domain.low)) {
    schema[domain.has_low ? "minimum" : "exclusiveMinimum"] = domain.low;
  }
  if (std::isinf(domain.high)) {
    schema["maximum"] = std::numeric_limits<double>::max();  // not .inf
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

/// YAML reads an unquoted name such as 2020 as a number.
Json to_schema(const Text&) { return {{"type", {"string", "number", "boolean"}}}; }

/// One value or a list of values.
Json one_or_list(const Json& item) {
  return {{"anyOf", {item, {{"type", "array"}, {"items", item}}}}};
}

Json to_schema(const FilePaths&) { return one_or_list(to_schema(Text())); }

Json to_schema(const WholeNumbers& domain) { return one_or_list(to_schema(domain.number)); }

Json to_schema(const RunPath&) {
  return {{"type", {"string", "number", "boolean"}}, {"pattern", "^(?!~)"}};
}

Json to_schema(const OneOf& domain) { return {{"enum", domain.names}}; }

Json to_schema(const Domain& domain) {
  return std::visit([](const auto& each) { return to_schema(each); }, domain.any());
}

// ---- Values.

Json value_to_json(const FieldValue& value, const Domain& domain) {
  return std::visit(
      [&]<class T>(const T& each) -> Json {
        if constexpr (std::is_same_v<T, FileList>) {
          return each.names();
        } else if constexpr (std::is_same_v<T, std::optional<double>>) {
          return each ? Json(*each) : Json(domain.print(value));
        } else if constexpr (std::is_same_v<T, std::chrono::seconds>) {
          return domain.print(value);
        } else {
          return each;
        }
      },
      value);
}

std::string description(const Field& field) {
  std::string text(field.meaning);
  const Use& use = field.use;
  if (!use.selector.empty()) {
    text += "; only with " + use.selector + ": " + list_in_words(use.choices);
  }
  return text;
}

// ---- Rules between keys.

/// The values that a key may have, by its path, such as "model.kind".
struct AllowedValues {
  std::string path;
  Json values;  ///< a list
};

/// A schema of the configs in which a key has one of the values, or is missing if `or_missing`.
Json has_value(const AllowedValues& allowed, bool or_missing) {
  const std::size_t dot = allowed.path.find('.');
  const std::string section = allowed.path.substr(0, dot), key = allowed.path.substr(dot + 1);
  Json of_section = {{"properties", {{key, {{"enum", allowed.values}}}}}};
  if (!or_missing) of_section["required"] = {key};
  Json schema = {{"properties", {{section, std::move(of_section)}}}};
  if (!or_missing) schema["required"] = {section};
  return schema;
}

/// The rules between keys that are lists of values: which keys a value of another key uses, and
/// which data and scores a kind of model has.
class KeyRules {
 public:
  /// defaults  of all keys, by path
  explicit KeyRules(const std::map<std::string, Json>& defaults) : defaults_(defaults) {}

  /// A key that is used only with some values of another one has its default with all others.
  void add_use(const Field& field) {
    const Use& use = field.use;
    if (use.selector.empty()) return;
    const Json condition = has({use.selector, use.choices});
    AllowedValues allowed{field.path(), Json::array({defaults_.at(field.path())})};
    if (allowed.values[0] == Json::array()) allowed.values.push_back("");  // a list of no files
    const Json otherwise = has_value(allowed, true);
    for (Json& rule : rules_) {
      if (rule["if"] != condition || !rule.contains("else")) continue;
      rule["else"].merge_patch(otherwise);
      return;
    }
    rules_.push_back({{"if", condition}, {"else", otherwise}});
  }

  /// The data and the scores of each kind of model.
  void add_kinds() {
    std::vector<std::string> metrics(std::begin(common_best_metrics),
                                     std::end(common_best_metrics));
    for (const ConfigKind& kind : model_kinds()) {
      Json of_kind = metrics;
      for (const std::string_view score : kind.scores) of_kind.push_back(score);
      const Json tasks = data_tasks_for(kind.name);
      rules_.push_back(
          {{"if", has({"model.kind", {kind.name}})},
           {"then",
            {{"allOf", {has({"data.task", tasks}), has({"train.best_metric", of_kind})}}}}});
    }
  }

  Json take() { return std::move(rules_); }

 private:
  /// A missing key has its default.
  Json has(const AllowedValues& allowed) const {
    const Json& values = allowed.values;
    const bool of_default = std::ranges::find(values, defaults_.at(allowed.path)) != values.end();
    return has_value(allowed, of_default);
  }

  const std::map<std::string, Json>& defaults_;
  Json rules_ = Json::array();
};

}  // namespace

std::string config_schema() {
  Json sections = Json::object();
  std::map<std::string, Json> default_values;
  const Config defaults;
  for_each_field(defaults, [&](const Field& field, const FieldValue& value, const Domain& domain) {
    Json& section = sections[std::string(field.section)];
    if (section.is_null()) {
      section = {{"type", "object"}, {"additionalProperties", false}, {"properties", {}}};
    }
    Json key = to_schema(domain);
    key["description"] = description(field);
    key["default"] = default_values[field.path()] = value_to_json(value, domain);
    section["properties"][std::string(field.key)] = std::move(key);
  });
  KeyRules rules(default_values);
  for_each_field(defaults,
                 [&](const Field& field, const auto&, const auto&) { rules.add_use(field); });
  rules.add_kinds();
  const Json schema = {{"$schema", "http://json-schema.org/draft-07/schema#"},
                       {"title", "Config of tapestry"},
                       {"type", "object"},
                       {"additionalProperties", false},
                       {"patternProperties", {{"^x-", {{"type", "object"}}}}},
                       {"properties", std::move(sections)},
                       {"allOf", rules.take()}};
  return schema.dump(2);
}

}  // namespace tapestry
