#include "train/config/listing.h"

#include <fmt/format.h>

#include <cstddef>
#include <string_view>

#include "train/config/fields.h"

namespace tapestry {
namespace {

std::string used_with(const Use& use) {
  if (use.selector.empty()) return {};
  return fmt::format("{}: {}", use.selector, list_in_words(use.choices));
}

/// Every value of `config` as in YAML, in the order of the file.
std::vector<std::string> printed_values(const Config& config) {
  std::vector<std::string> values;
  for_each_field(config, [&](const Field&, const auto& value, const auto& domain) {
    values.push_back(domain.print(value));
  });
  return values;
}

}  // namespace

std::vector<ConfigKey> config_keys() {
  std::vector<ConfigKey> keys;
  const Config defaults;
  for_each_field(defaults, [&](const Field& field, const auto& value, const auto& domain) {
    keys.push_back({std::string(field.section), std::string(field.key), domain.expected(),
                    domain.print(value), std::string(field.meaning), used_with(field.use)});
  });
  return keys;
}

std::string dump_config(const Config& config) {
  std::string text;
  std::string_view section;
  for_each_field(config, [&](const Field& field, const auto& value, const auto& domain) {
    if (field.section != section) text += fmt::format("{}:\n", field.section);
    section = field.section;
    text += fmt::format("  {}: {}\n", field.key, domain.print(value));
  });
  return text;
}

std::vector<ConfigDifference> compare_configs(const Config& checkpoint, const Config& now) {
  const std::vector<std::string> before = printed_values(checkpoint);
  const std::vector<std::string> after = printed_values(now);
  std::vector<ConfigDifference> differences;
  std::size_t index = 0;
  for_each_field(now, [&](const Field& field, const auto&, const auto&) {
    const std::size_t i = index++;
    if (before[i] != after[i]) differences.push_back({field.path(), before[i], after[i]});
  });
  return differences;
}

}  // namespace tapestry
