#include "train/config/schema.h"

#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <type_traits>

#include "train/config/fields.h"

namespace tapestry {
namespace {

using Json = nlohmann::ordered_json;

// ---- Domains.

Json schema_of(const WholeNumber& domain) {
  Json schema = {{"type", "integer"}, {"minimum", domain.low}};
  if (domain.high != std::numeric_limits<std::uint64_t>::max()) schema["maximum"] = domain.high;
  return schema;
}

Json schema_of(const StepCount& domain) {
  const Json percentage = {{"type", "string"},
                           {"pattern", R"(^(?!0(\.0+)?%)(100(\.0+)?|[1-9]?[0-9](\.[0-9]+)?)%$)"}};
  return {{"anyOf", {schema_of(static_cast<const WholeNumber&>(domain)), percentage}}};
}

Json schema_of(const RealNumber& domain) {
  Json schema = {{"type", "number"}};
  if (!std::isinf(domain.low)) {
    schema[domain.has_low ? "minimum" : "exclusiveMinimum"] = domain.low;
  }
  if (!std::isinf(domain.high)) {
    schema[domain.has_high ? "maximum" : "exclusiveMaximum"] = domain.high;
  }
  return schema;
}

Json schema_of(const NumberOrWord& domain) {
  return {{"anyOf", {schema_of(domain.number), {{"enum", {domain.word}}}}}};
}

Json schema_of(const Duration&) {
  return {{"type", "string"}, {"pattern", "^(?=.)([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?$"}};
}

Json schema_of(const Flag&) { return {{"type", "boolean"}}; }

/// YAML reads an unquoted name such as 2020 as a number.
Json schema_of(const Text&) { return {{"type", {"string", "number", "boolean"}}}; }

/// One value or a list of values.
Json one_or_list(const Json& item) {
  return {{"anyOf", {item, {{"type", "array"}, {"items", item}}}}};
}

Json schema_of(const FilePaths&) { return one_or_list(schema_of(Text())); }

Json schema_of(const WholeNumbers& domain) { return one_or_list(schema_of(domain.number)); }

Json schema_of(const RunPath&) {
  return {{"type", {"string", "number", "boolean"}}, {"pattern", "^(?!~)"}};
}

Json schema_of(const OneOf& domain) { return {{"enum", domain.names}}; }

Json schema_of(const Domain& domain) {
  return std::visit([](const auto& each) { return schema_of(each); }, domain.any());
}

// ---- Values.

Json json_of(const FieldValue& value, const Domain& domain) {
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

}  // namespace

std::string config_schema() {
  Json sections = Json::object();
  const Config defaults;
  for_each_field(defaults, [&](const Field& field, const FieldValue& value, const Domain& domain) {
    Json& section = sections[std::string(field.section)];
    if (section.is_null()) {
      section = {{"type", "object"}, {"additionalProperties", false}, {"properties", {}}};
    }
    Json key = schema_of(domain);
    key["description"] = description(field);
    key["default"] = json_of(value, domain);
    section["properties"][std::string(field.key)] = std::move(key);
  });
  const Json schema = {{"$schema", "http://json-schema.org/draft-07/schema#"},
                       {"title", "Config of tapestry"},
                       {"type", "object"},
                       {"additionalProperties", false},
                       {"properties", std::move(sections)}};
  return schema.dump(2);
}

}  // namespace tapestry
