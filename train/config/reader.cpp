#include "train/config/reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <variant>
#include <vector>

#include "data/io/utf8.h"
#include "train/config/fields.h"
#include "train/config/kind.h"
#include "train/config/rules.h"
#include "train/config/suggestions.h"
#include "train/config/text.h"

namespace tapestry {
namespace {

constexpr std::size_t longest_shown_override = 100;  // characters

struct Names {
  std::vector<std::string> sections;
  std::map<std::string, std::vector<std::string>, std::less<>> keys_in;        ///< by section
  std::map<std::string, std::vector<std::string>, std::less<>> sections_with;  ///< by key
  std::vector<std::string> keys;
};

Names collect_names() {
  Names names;
  const Config config;
  for_each_field(config, [&](const Field& field, const FieldValue&, const Domain&) {
    const std::string section(field.section), key(field.key);
    if (names.keys_in[section].empty()) names.sections.push_back(section);
    names.keys_in[section].push_back(key);
    names.sections_with[key].push_back(section);
    names.keys.push_back(key);
  });
  return names;
}

/// The names of all keys; those of kinds that have been registered since the last call are added.
const Names& names() {
  static Names all;
  static std::size_t kinds = 0;
  if (const std::size_t now = model_kinds().size() + data_tasks().size(); kinds != now) {
    all = collect_names();
    kinds = now;
  }
  return all;
}

bool contains(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// ``in `data` or `train` ``, for the sections that have a key.
std::string sections_with(const std::string& key) {
  std::vector<std::string> sections;
  for (const std::string& section : names().sections_with.at(key)) {
    sections.push_back(fmt::format("`{}`", section));
  }
  return "in " + list_in_words(sections);
}

/// "did you mean `a`, `b` in `model` or `c` in `train`?"; keys of `section` are named without it.
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

std::string hint_for_section(const std::string& section) {
  if (names().sections_with.contains(section)) {
    return fmt::format("`{}` belongs {}", section, sections_with(section));
  }
  if (const auto meant = closest(section, names().sections)) {
    return fmt::format("did you mean `{}`?", *meant);
  }
  if (const auto keys = keys_meant_by(section); !keys.empty()) return ask_for(keys, "");
  return fmt::format("use {}", list_in_words(names().sections));
}

/// The keys of a section, those that the chosen kinds use first.
std::vector<std::string> keys_by_use(const std::string& section, const Config& chosen) {
  std::vector<std::string> keys, unused;
  for_each_field(chosen, [&](const Field& field, const FieldValue&, const Domain&) {
    if (field.section != section) return;
    const Use& use = field.use;
    const bool used = use.selector.empty() || contains(use.choices, use.current);
    (used ? keys : unused).emplace_back(field.key);
  });
  keys.insert(keys.end(), unused.begin(), unused.end());
  return keys;
}

/// `chosen` has the kinds that the config chooses.
std::string hint_for_key(const std::string& section, const std::string& key, const Config& chosen) {
  if (names().sections_with.contains(key)) {
    return fmt::format("`{}` belongs {}", key, sections_with(key));
  }
  if (const auto called_so = keys_meant_by(key); !called_so.empty()) {
    return ask_for(called_so, section);
  }
  if (const auto meant = closest(key, keys_by_use(section, chosen)))
    return fmt::format("did you mean `{}`?", *meant);
  if (const auto meant = closest(key, names().keys)) {
    return fmt::format("did you mean `{}` {}?", *meant, sections_with(*meant));
  }
  return fmt::format("`{}` has the keys {}", section, fmt::join(names().keys_in.at(section), ", "));
}

/// The hint for an invalid value whose meaning cannot be guessed.
std::string hint_for_value(const std::string& path) {
  const Config defaults;
  std::string default_value;
  for_each_field(defaults, [&](const Field& field, const FieldValue& value, const Domain& domain) {
    if (field.path() == path) default_value = domain.print(value);
  });
  return fmt::format("write for example {}, the default", default_value);
}

Mistake wrong_kind(const Domain& domain, YamlKind kind) {
  const std::string hint = kind == YamlKind::nothing
                               ? "write a value, or remove the key to keep its default"
                               : "write one value";
  return {fmt::format("expected {}, found {}", domain.expected(), describe(kind)), hint};
}

Place place_of_override(const std::string& override) {
  const std::string_view shown = characters(override, 0, longest_shown_override);
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

/// Whether a number of steps is given as a percentage.
std::optional<double> percentage(const Domain& domain, std::string_view text) {
  return domain.is<StepCount>() ? StepCount::parse_percentage(text) : std::nullopt;
}

/// Whether a text is a valid value of a key.
bool accepts(const std::string& path, const std::string& value) {
  const Config defaults;
  bool valid = false;
  for_each_field(defaults, [&](const Field& field, const FieldValue&, const Domain& domain) {
    if (field.path() != path) return;
    valid = percentage(domain, value) || !std::holds_alternative<Mistake>(domain.parse(value));
  });
  return valid;
}

/// The hint for an override without a section or a value: the keys that it may mean, without those
/// for which its value is invalid.
std::string hint_for_form(const std::string& override) {
  const std::size_t equals = override.find('=');
  const std::string name = override.substr(0, equals);
  std::vector<std::string> paths = keys_meant_by(name.substr(name.find('.') + 1));
  if (contains(paths, name)) paths = {name};
  if (equals != std::string::npos) {
    const std::string value = override.substr(equals + 1);
    const auto invalid = [&](const std::string& path) { return !accepts(path, value); };
    if (!std::ranges::all_of(paths, invalid)) std::erase_if(paths, invalid);
  }
  if (paths.empty()) return "write for example `model.d_model=128`";
  for (std::string& path : paths) path = fmt::format("`{}=...`", path);
  return "write " + list_in_words(paths);
}

}  // namespace

void ConfigReader::read(const YamlDocument& document, const Folder& folder) {
  Config chosen = config_;
  for (const YamlEntry& entry : document.entries()) {
    if (entry.section == "model" && entry.key == "kind") chosen.model_kind = entry.value;
    if (entry.section == "data" && entry.key == "task") chosen.data.task = entry.value;
  }
  std::set<std::string, std::less<>> known;
  for (const YamlSection& section : document.sections()) {
    if (check_section(document, section)) known.insert(section.name);
  }
  for (const YamlEntry& entry : document.entries()) {
    const Place key_place = document.place(entry.key_position);
    const bool good =
        known.contains(entry.section) && check_key(key_place, entry.section, entry.key, chosen);
    if (!good) continue;
    give(entry.section + "." + entry.key, key_place,
         {entry.kind, entry.items ? print_list(*entry.items) : entry.value,
          document.place(entry.value_position)},
         folder);
  }
}

void ConfigReader::read(const std::string& override, const Folder& folder) {
  if (const auto bad = find_bad_character(override, false)) {
    problems_.add({.file = "command line"},
                  fmt::format("{}: found {}", excerpt(override), bad->name),
                  "write the override as UTF-8 text without control characters");
    return;
  }
  const Place place = place_of_override(override);
  const std::optional<Assignment> parts = split(override);
  if (!parts) {
    problems_.add(place, "expected `section.key=value`", hint_for_form(override));
  } else if (!contains(names().sections, parts->section)) {
    problems_.add(place, fmt::format("unknown section `{}`", parts->section),
                  hint_for_section(parts->section));
  } else if (check_key(place, parts->section, parts->key, config_)) {
    give(parts->section + "." + parts->key, place, {YamlKind::value, parts->value, place, true},
         folder);
  }
}

bool ConfigReader::check_section(const YamlDocument& document, const YamlSection& section) {
  const Place place = document.place(section.position);
  if (!contains(names().sections, section.name)) {
    problems_.add(place, fmt::format("unknown section `{}`", section.name),
                  hint_for_section(section.name));
    return false;
  }
  if (section.kind != YamlKind::map) {
    problems_.add(place,
                  fmt::format("expected keys indented below `{}`, found {}", section.name,
                              describe(section.kind)),
                  fmt::format("write `{}: ...` below it, or remove the section",
                              names().keys_in.at(section.name).front()));
    return false;
  }
  return true;
}

bool ConfigReader::check_key(const Place& place, const std::string& section, const std::string& key,
                             const Config& chosen) {
  if (contains(names().keys_in.at(section), key)) return true;
  problems_.add(place, fmt::format("unknown key `{}` in `{}`", key, section),
                hint_for_key(section, key, chosen));
  return false;
}

void ConfigReader::give(const std::string& path, const Place& place, const Given& given,
                        const Folder& folder) {
  bool valid = false;
  std::vector<bool> relative;
  for_each_field(config_, [&](const Field& field, FieldValue& value, const Domain& domain) {
    if (field.path() != path) return;
    if (const auto percent = percentage(domain, given.text)) {  // resolved after the last key
      valid = true;
      config_.step_percentages[path] = {.percent = *percent, .in_override = given.in_override};
      return;
    }
    const bool list = domain.is_list() && given.kind == YamlKind::list && !given.text.empty();
    const Parsed<FieldValue> parsed = given.kind == YamlKind::value || list
                                          ? domain.parse(given.text)
                                          : wrong_kind(domain, given.kind);
    if (const auto* mistake = std::get_if<Mistake>(&parsed)) {
      problems_.add(given.place, mistake->message,
                    mistake->hint.empty() ? hint_for_value(path) : mistake->hint);
      return;
    }
    valid = true;
    config_.step_percentages.erase(path);
    value = std::get<FieldValue>(parsed);
    if (!domain.is_path() || !folder) return;
    for_each_path(value, [&](std::string& path_of_file) {
      relative.push_back(std::filesystem::path(path_of_file).is_relative());
      path_of_file = (*folder / path_of_file).lexically_normal().string();
    });
  });
  origins_.insert_or_assign(path, Origin{place, valid, given.in_override, relative});
}

}  // namespace tapestry
