// SPDX-License-Identifier: BSD-3-Clause
#include "train/config/reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <variant>

#include "data/io/near_name.h"
#include "data/io/utf8.h"
#include "train/base/program.h"
#include "train/config/fields.h"
#include "train/config/kind.h"
#include "train/config/numbers.h"
#include "train/config/rules.h"
#include "train/config/synonyms.h"
#include "train/config/text.h"
#include "train/config/yaml_text.h"

namespace tapestry {
namespace {

constexpr std::size_t max_shown_override = 100;  // in characters

using Keys = std::vector<ConfigKey>;

bool contains(const std::vector<std::string>& words, const std::string& word) {
  return std::ranges::find(words, word) != words.end();
}

std::vector<std::string> section_names(const Keys& keys) {
  std::vector<std::string> names;
  for (const ConfigKey& key : keys) {
    if (!contains(names, key.section)) names.push_back(key.section);
  }
  return names;
}

std::vector<std::string> keys_in(const Keys& keys, const std::string& section) {
  std::vector<std::string> names;
  for (const ConfigKey& key : keys) {
    if (key.section == section) names.push_back(key.key);
  }
  return names;
}

/// The sections that have a key, formatted as ``in `data` or `train` ``; empty for an unknown key.
std::string sections_with(const Keys& keys, const std::string& name) {
  std::vector<std::string> sections;
  for (const ConfigKey& key : keys) {
    if (key.key == name) sections.push_back(fmt::format("`{}`", key.section));
  }
  return sections.empty() ? "" : "in " + list_in_words(sections);
}

/// Formats a hint as "did you mean `a`, `b` in `model` or `c` in `train`?". Does not name the
/// section of keys in `section`.
std::string ask_for(const std::vector<std::string>& paths, const std::string& section) {
  std::vector<std::string> keys;
  for (const std::string& path : paths) {
    const std::size_t dot = path.find('.');
    const std::string own = path.substr(0, dot);
    const std::string key = path.substr(dot + 1);
    keys.push_back(own == section ? fmt::format("`{}`", key)
                                  : fmt::format("`{}` in `{}`", key, own));
  }
  return fmt::format("did you mean {}?", list_in_words(keys));
}

/// The corrected form of `key:value` or `key=value`, or of a name with characters that only look
/// like ASCII; empty for other names.
std::string corrected(const std::string& name) {
  std::string plain = with_plain_characters(name);
  plain.erase(plain.find_last_not_of(' ') + 1);
  if (const std::size_t sign = plain.find_first_of(":="); sign != plain.npos) {
    const std::size_t value = plain.find_first_not_of(' ', sign + 1);
    const std::string line = plain.substr(0, plain.find_first_of(" ,", value));
    if (const auto fixed = with_colon_and_space(line)) return *fixed;
  }
  return plain == name ? "" : plain;
}

std::string hint_for_section(const Keys& keys, const std::string& section) {
  const std::size_t dot = section.find('.');
  if (dot != section.npos &&
      contains(keys_in(keys, section.substr(0, dot)), section.substr(dot + 1))) {
    return fmt::format("write `{}: ...` indented below `{}:`", section.substr(dot + 1),
                       section.substr(0, dot));
  }
  if (const std::string name = corrected(section); !name.empty()) {
    return fmt::format("write `{}`", name);
  }
  if (const auto missing = hint_for_missing_feature(section)) return *missing;
  if (const std::string where = sections_with(keys, section); !where.empty()) {
    return fmt::format("`{}` belongs {}", section, where);
  }
  const std::vector<std::string> sections = section_names(keys);
  if (const auto meant = closest(section, sections)) {
    return fmt::format("did you mean `{}`?", *meant);
  }
  if (const auto paths = keys_meant_by(section); !paths.empty()) return ask_for(paths, "");
  return fmt::format("use {}", list_in_words(sections));
}

/// The keys of a section. Keys that the chosen kinds use come first.
std::vector<std::string> keys_by_use(const std::string& section, const Config& chosen) {
  std::vector<std::string> keys, unused;
  for (const Field& field : fields_of(chosen)) {
    if (field.section == section) (field.in_use() ? keys : unused).emplace_back(field.key);
  }
  keys.insert(keys.end(), unused.begin(), unused.end());
  return keys;
}

/// chosen  a config with the data.task and model.kind of the text
std::string hint_for_key(const Keys& keys, const std::string& section, const std::string& key,
                         const Config& chosen) {
  if (const std::string name = corrected(key); !name.empty()) {
    return fmt::format("write `{}`", name);
  }
  std::vector<std::string> own = paths_of_synonym(key);
  std::erase_if(own, [&](const std::string& path) { return !path.starts_with(section + "."); });
  if (!own.empty()) return ask_for(own, section);
  if (const std::string where = sections_with(keys, key); !where.empty()) {
    return fmt::format("`{}` belongs {}", key, where);
  }
  if (const auto paths = keys_meant_by(key); !paths.empty()) return ask_for(paths, section);
  if (const auto meant = closest(key, keys_by_use(section, chosen))) {
    return fmt::format("did you mean `{}`?", *meant);
  }
  std::vector<std::string> all;
  for (const ConfigKey& each : keys) all.push_back(each.key);
  if (const auto meant = closest(key, all)) {
    return fmt::format("did you mean `{}` {}?", *meant, sections_with(keys, *meant));
  }
  if (const auto missing = hint_for_missing_feature(key)) return *missing;
  constexpr std::size_t max_listed = 12;
  const std::vector<std::string> listed = keys_in(keys, section);
  if (listed.size() > max_listed) {
    return fmt::format("`{} config explain CONFIG` lists the keys of `{}`", program_name(),
                       section);
  }
  return fmt::format("`{}` has the keys {}", section, fmt::join(listed, ", "));
}

/// The hint for a section whose content is not a map. `key` is one of its keys.
std::string hint_for_content(const YAML::Node& content, const std::string& key) {
  const std::string fixed = content.IsScalar() ? corrected(content.Scalar()) : "";
  if (fixed.empty()) return fmt::format("write `{}: ...` below it, or remove the section", key);
  return fmt::format("write `{}`, with a space after the colon", fixed);
}

/// The text of a value for Domain::parse(); nullopt if it is neither a scalar nor a list of
/// scalars.
std::optional<std::string> text_of(const YAML::Node& value) {
  if (value.IsScalar()) return value.Scalar();
  if (!value.IsSequence()) return std::nullopt;
  std::vector<std::string> items;
  for (const YAML::Node& item : value) {
    if (!item.IsScalar()) return std::nullopt;
    items.push_back(item.Scalar());
  }
  return print_list(items);
}

Place place_of_override(const std::string& override) {
  const std::string_view shown = characters(override, 0, max_shown_override);
  const std::string_view end = shown.size() < override.size() ? "..." : "";
  return {.file = fmt::format("command line: {}{}", shown, end)};
}

struct Assignment {
  std::string section, key, value;
};

/// Splits section.key=value into its parts.
std::optional<Assignment> split(const std::string& override) {
  const std::size_t equals = override.find('=');
  const std::size_t dot = override.find('.');
  if (equals == std::string::npos || dot > equals) return std::nullopt;
  return Assignment{override.substr(0, dot), override.substr(dot + 1, equals - dot - 1),
                    override.substr(equals + 1)};
}

/// The values to name in the error for an invalid value. The values of train.best_metric depend on
/// the kind of model.
Domain domain_for(const Field& field, const std::string& model_kind) {
  const auto kind = std::ranges::find(model_kinds(), model_kind, &ConfigKind::name);
  if (field.path() != "train.best_metric" || kind == model_kinds().end()) return field.domain;
  return OneOf{best_metrics_of(*kind)};
}

/// The percentage in `text` if the domain is a number of steps; otherwise nullopt.
std::optional<double> percentage_of_steps(const Domain& domain, std::string_view text) {
  return domain.is<StepCount>() ? parse_percentage(text) : std::nullopt;
}

/// Whether a text is a valid value of a key.
bool accepts(const std::string& path, const std::string& value) {
  const std::optional<Field> field = find_field(path);
  return field && (percentage_of_steps(field->domain, value) ||
                   std::holds_alternative<FieldValue>(field->domain.parse(value)));
}

/// The hint for an override without a section or a value. Suggests keys that the user may have
/// meant and that accept the value.
std::string hint_for_form(const std::string& override) {
  // The shell has split a list with spaces.
  if (override.ends_with(']') || override.ends_with(',')) {
    return "put the list in quotes, such as 'data.train_text=[a.txt, b.txt]'";
  }
  const std::size_t equals = override.find('=');
  const std::string name = override.substr(0, equals);
  std::vector<std::string> paths = keys_meant_by(name.substr(name.find('.') + 1));
  if (contains(paths, name)) paths = {name};
  if (equals != std::string::npos) {
    const std::string value = override.substr(equals + 1);
    const auto invalid = [&](const std::string& path) { return !accepts(path, value); };
    if (!std::ranges::all_of(paths, invalid)) std::erase_if(paths, invalid);
  }
  if (const auto missing = hint_for_missing_feature(name); paths.empty() && missing)
    return *missing;
  if (paths.empty()) return "for example, write `model.d_model=128`";
  for (std::string& path : paths) path = fmt::format("`{}=...`", path);
  return "write " + list_in_words(paths);
}

}  // namespace

void ConfigReader::read(YamlText& text, const Folder& folder) {
  Config chosen = config_;
  std::vector<std::pair<std::string, YamlEntry>> keys;  // keys, each with its section
  for (const YamlEntry& section : text.sections()) {
    if (section.key.starts_with("x-") || !check_section(section.key_place, section.key)) continue;
    if (!section.value.IsMap()) {
      errors_.add(section.key_place,
                  fmt::format("expected keys indented below `{}`, found {}", section.key,
                              describe(section.value)),
                  hint_for_content(section.value, keys_in(keys_, section.key).front()));
      continue;
    }
    for (YamlEntry& entry : text.entries(section.key, section.value)) {
      const std::string path = section.key + "." + entry.key;
      if (path == "model.kind" && entry.value.IsScalar()) chosen.model_kind = entry.value.Scalar();
      if (path == "data.task" && entry.value.IsScalar()) chosen.data.task = entry.value.Scalar();
      keys.emplace_back(section.key, std::move(entry));
    }
  }
  std::map<std::string, Given> values;
  for (const auto& [section, entry] : keys) {
    if (!check_key(entry.key_place, section, entry.key, chosen)) continue;
    const std::string path = section + "." + entry.key;
    if (values.contains(path)) {  // in a repeated section
      set(values, folder);
      values.clear();
    }
    values.emplace(path, Given{.key_place = entry.key_place,
                               .text = text_of(entry.value),
                               .kind = describe(entry.value),
                               .value_place = entry.value_place,
                               .model_kind = chosen.model_kind});
  }
  set(values, folder);
}

void ConfigReader::read(const std::string& override, const Folder& folder) {
  if (const auto bad = find_bad_character(override, false)) {
    errors_.add({.file = "command line"}, fmt::format("{}: found {}", excerpt(override), bad->name),
                "write the override as UTF-8 text without control characters");
    return;
  }
  const Place place = place_of_override(override);
  const std::optional<Assignment> parts = split(override);
  if (!parts) {
    errors_.add(place, "expected `section.key=value`", hint_for_form(override));
  } else if (check_section(place, parts->section) &&
             check_key(place, parts->section, parts->key, config_)) {
    set({{parts->section + "." + parts->key,
          {.key_place = place,
           .text = parts->value,
           .kind = "a value",
           .value_place = place,
           .in_override = true,
           .model_kind = config_.model_kind}}},
        folder);
  }
}

bool ConfigReader::check_section(const Place& place, const std::string& section) {
  if (std::ranges::find(keys_, section, &ConfigKey::section) != keys_.end()) return true;
  errors_.add(place, fmt::format("unknown section `{}`{}", section, name_odd_character(section)),
              hint_for_section(keys_, section));
  return false;
}

bool ConfigReader::check_key(const Place& place, const std::string& section, const std::string& key,
                             const Config& chosen) {
  const auto is_key = [&](const ConfigKey& each) {
    return each.section == section && each.key == key;
  };
  if (std::ranges::any_of(keys_, is_key)) return true;
  errors_.add(place,
              fmt::format("unknown key `{}` in `{}`{}", key, section, name_odd_character(key)),
              hint_for_key(keys_, section, key, chosen));
  return false;
}

void ConfigReader::set(const std::map<std::string, Given>& values, const Folder& folder) {
  for_each_field(config_, [&](Field& field) {
    const auto found = values.find(field.path());
    if (found == values.end()) return;
    const Given& given = found->second;
    Origin origin{.place = given.key_place, .valid = false, .in_override = given.in_override};
    origin.valid = set_value(field, given) && resolve_paths(field, given, folder, origin);
    origins_.insert_or_assign(found->first, std::move(origin));
  });
}

bool ConfigReader::resolve_paths(Field& field, const Given& given, const Folder& folder,
                                 Origin& origin) {
  if (!field.domain.is_path()) return true;
  for_each_path(field.value, [&](std::string& file) {
    origin.relative.push_back(std::filesystem::path(file).is_relative());
    if (folder) file = (*folder / file).lexically_normal().string();
  });
  if (folder || !given.in_override || std::ranges::count(origin.relative, true) == 0) return true;
  errors_.add(given.key_place, "found a relative path, but the working directory does not exist",
              "change to an existing folder with cd, or give absolute paths");
  return false;
}

bool ConfigReader::set_value(Field& field, const Given& given) {
  const bool is_text = given.text && (given.kind != "a list" || field.domain.is_list());
  if (!is_text) {
    errors_.add(given.value_place,
                fmt::format("expected {}, found {}", field.domain.expected(), given.kind),
                given.kind == "nothing" ? "write a value, or remove the key to keep its default"
                                        : "write one value");
    return false;
  }
  const std::string path = field.path();
  if (const auto percent = percentage_of_steps(field.domain, *given.text)) {
    // resolve_percentages() converts the percentage to steps when train.steps is known.
    config_.step_percentages[path] = {.percent = *percent, .in_override = given.in_override};
    return true;
  }
  Parsed parsed = field.domain.parse(*given.text);
  if (std::holds_alternative<Diagnostic>(parsed)) {
    const Domain domain = domain_for(field, given.model_kind);
    parsed = domain.parse(*given.text);
    const auto* error = std::get_if<Diagnostic>(&parsed);
    const std::string& usual = std::ranges::find(keys_, path, &ConfigKey::path)->default_value;
    const auto meant = value_meant_by(path, *given.text, domain.words());
    errors_.add(given.value_place, error->message,
                meant                 ? fmt::format("the nearest is `{}`", *meant)
                : error->hint.empty() ? fmt::format("for example, write {}, the default", usual)
                                      : error->hint);
    return false;
  }
  config_.step_percentages.erase(path);
  field.value = std::get<FieldValue>(std::move(parsed));
  return true;
}

}  // namespace tapestry
