#include <algorithm>
#include <string>
#include <vector>

#include "tests/fuzz/fuzz_target.h"
#include "train/config/config.h"
#include "train/config/error.h"

using namespace tapestry;

namespace {

/// A line of the input behind which each line is an override.
constexpr std::string_view separator = "\n=== overrides\n";

/// 50 problems at most, each with a quoted value, an excerpt of a line and a hint that may list all
/// keys of a section, or all of its choices.
constexpr std::size_t longest_error = 51 * 1000;

struct Input {
  std::string_view text;
  std::vector<std::string> overrides;
};

Input split_input(std::string_view bytes) {
  const std::size_t end = bytes.find(separator);
  Input result{.text = bytes.substr(0, end), .overrides = {}};
  if (end == bytes.npos) return result;
  std::string_view rest = bytes.substr(end + separator.size());
  while (!rest.empty()) {
    const std::size_t line_end = std::min(rest.find('\n'), rest.size());
    result.overrides.emplace_back(rest.substr(0, line_end));
    rest.remove_prefix(std::min(line_end + 1, rest.size()));
  }
  return result;
}

void require_places(const ConfigError& error) {
  fuzz::require(!error.diagnostics().empty(), "an error lists problems");
  for (const Diagnostic& problem : error.diagnostics()) {
    const Place& place = problem.place;
    fuzz::require(!problem.message.empty(), "a problem has a message");
    fuzz::require((place.line == 0) == (place.column == 0), "a line has a column");
  }
}

}  // namespace

/// Input: a config, and behind the separator overrides.
void tapestry::fuzz::feed(std::string_view bytes) {
  const Input input = split_input(bytes);
  Config config;
  try {
    config = parse_config(input.text, "c.yaml", input.overrides);
  } catch (const ConfigError& error) {
    require_places(error);
    fuzz::require_presentable(error.what(), longest_error);
    return;
  }
  const std::string dumped = dump_config(config);
  const Config again = parse_config(dumped, "dump");
  fuzz::require(compare_configs(config, again).empty(), "a dumped config reads back the same");
  fuzz::require(dump_config(again) == dumped, "a config that is read back dumps the same");
}
