// SPDX-License-Identifier: BSD-3-Clause
#include <string>
#include <vector>

#include "tests/fuzz/fuzz.h"
#include "train/config/config.h"
#include "train/config/difference.h"
#include "train/config/error.h"
#include "train/config/load.h"

namespace tapestry::fuzz {
namespace {

/// The maximum size of an error in bytes. An error has at most 50 problems, each with a quoted
/// value, an excerpt of a line and a hint that may list all keys of a section or all choices of a
/// key.
constexpr std::size_t max_error_length = 51 * 1000;

/// Splits lines into overrides, one per line.
std::vector<std::string> split_overrides(std::string_view lines) {
  std::vector<std::string> overrides;
  while (!lines.empty()) {
    const std::size_t end = std::min(lines.find('\n'), lines.size());
    overrides.emplace_back(lines.substr(0, end));
    lines.remove_prefix(std::min(end + 1, lines.size()));
  }
  return overrides;
}

void require_places(const ConfigError& error) {
  require(!error.diagnostics().empty(), "an error lists problems");
  for (const Diagnostic& problem : error.diagnostics()) {
    const Place& place = problem.place;
    require(!problem.message.empty(), "a problem has a message");
    require((place.line == 0) == (place.column == 0), "a line has a column");
  }
}

}  // namespace

/// Input: a config, then the separator and overrides.
void feed_config(std::string_view bytes) {
  constexpr std::string_view separator = "\n=== overrides\n";
  const std::size_t end = std::min(bytes.find(separator), bytes.size());
  Config config;
  try {
    config =
        parse_config(bytes.substr(0, end), "c.yaml",
                     split_overrides(bytes.substr(std::min(end + separator.size(), bytes.size()))));
  } catch (const ConfigError& error) {
    require_places(error);
    require_presentable(error.what(), max_error_length);
    return;
  }
  const std::string dumped = dump_config(config);
  const Config again = parse_config(dumped, "dump");
  require(compare_configs(config, again).empty(), "parsing a dumped config gives the same config");
  require(dump_config(again) == dumped, "dumping a parsed dump gives the same text");
}

}  // namespace tapestry::fuzz
