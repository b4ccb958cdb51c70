// SPDX-License-Identifier: BSD-3-Clause
#include "train/config/known_keys.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "train/config/error.h"
#include "train/config/load.h"
#include "train/config/reader.h"
#include "train/config/rules.h"
#include "train/config/yaml_text.h"

namespace tapestry {

KnownKeys load_known_keys(const std::string& path) {
  KnownKeys known;
  Diagnostics errors;
  YamlText yaml(path, read_config_file(path), errors);
  ConfigReader reader(known.config, errors);
  reader.read(yaml, {});
  for (const auto& [key, origin] : reader.origins()) {
    if (origin.valid) known.given.insert(key);
  }
  try {
    errors.throw_if_any();
  } catch (const ConfigError& error) {
    Diagnostic first = error.diagnostics().front();
    const std::size_t others = error.diagnostics().size() - 1;
    first.hint.clear();
    const std::string text = to_string(first);
    known.problem = text.substr(0, text.find('\n'));
    if (others > 0)
      known.problem += fmt::format(" ({} further problem{})", others, others == 1 ? "" : "s");
  }
  return known;
}

std::optional<std::string> unknown_model_kind(std::string_view text) {
  Diagnostics ignored;
  YamlText yaml("", text, ignored);
  for (const YamlEntry& section : yaml.sections()) {
    if (section.key != "model" || !section.value.IsMap()) continue;
    for (const YamlEntry& entry : yaml.entries(section.key, section.value)) {
      if (entry.key != "kind" || !entry.value.IsScalar()) continue;
      const std::string& name = entry.value.Scalar();
      const auto& kinds = model_kinds();
      if (std::ranges::find(kinds, name, &ConfigKind::name) == kinds.end()) return name;
    }
  }
  return std::nullopt;
}

}  // namespace tapestry
