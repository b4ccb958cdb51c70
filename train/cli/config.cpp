// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "data/io/durable_file.h"
#include "data/io/utf8.h"
#include "train/base/error.h"
#include "train/base/format.h"
#include "train/base/program.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/open_run.h"
#include "train/cli/command.h"
#include "train/cli/open_trained.h"
#include "train/config/config.h"
#include "train/config/difference.h"
#include "train/config/keys.h"
#include "train/config/load.h"
#include "train/tasks/config_interview.h"

namespace tapestry {
namespace config_cli {
namespace {

struct Arguments {
  std::string action;
  std::vector<std::string> files{};
  bool json = false;
};

/// throws  UsageError if the action needs more or fewer arguments
void require_count(const Arguments& arguments, std::size_t min, std::size_t max,
                   const char* expected) {
  const std::size_t count = arguments.files.size();
  if (count >= min && count <= max) return;
  throw UsageError(fmt::format("config {} takes {}, found {} argument{}", arguments.action,
                               expected, count, count == 1 ? "" : "s"),
                   fmt::format("see `{} config --help`", program_name()));
}

void explain(const Arguments& arguments) {
  require_count(arguments, 1, arguments.files.size(), "CONFIG and any number of overrides");
  const auto keys =
      explain_config(arguments.files.front(), {arguments.files.begin() + 1, arguments.files.end()});
  if (!arguments.json) {
    fmt::print("{}", escaped_lines(to_yaml(keys)));
    return;
  }
  Json json = Json::array();
  for (const ExplainedKey& each : keys) {
    json.push_back({{"key", each.key.path()},
                    {"value", each.value},
                    {"percent_of_steps", or_null(each.percent)},
                    {"origin", each.origin},
                    {"default", each.key.default_value},
                    {"meaning", each.key.meaning},
                    {"expected", each.key.expected},
                    {"in_use", each.in_use}});
  }
  print_json(json);
}

/// The config of a file, of a run or of a checkpoint.
Config load_any_config(const std::string& path) {
  if (!is_run_or_checkpoint(path)) return load_config(path);
  const std::filesystem::path effective = std::filesystem::path(path) / "config.yaml";
  std::error_code error;
  if (std::filesystem::is_regular_file(effective, error)) return load_config(effective.string());
  return saved_config(open_run(path).arrays);
}

void diff(const Arguments& arguments) {
  require_count(arguments, 2, 2, "two configs, runs or checkpoints");
  const std::string &a = arguments.files[0], &b = arguments.files[1];
  const auto differences = compare_configs(load_any_config(a), load_any_config(b));
  if (arguments.json) {
    Json json = Json::array();
    for (const ConfigDifference& each : differences) {
      json.push_back({{"key", each.key}, {"a", each.checkpoint}, {"b", each.current}});
    }
    print_json(json);
    return;
  }
  if (differences.empty()) {
    fmt::print("no key differs\n");
    return;
  }
  std::size_t key_width = 0, value_width = display_columns(escaped(a));
  for (const ConfigDifference& each : differences) {
    key_width = std::max(key_width, each.key.size());
    value_width = std::max(value_width, display_columns(escaped(each.checkpoint)));
  }
  const auto print_row = [&](const std::string& key, const std::string& x, const std::string& y) {
    fmt::print("{}  {}  {}\n", padded(key, key_width), padded(escaped(x), value_width), escaped(y));
  };
  print_row("", a, b);
  for (const ConfigDifference& each : differences)
    print_row(each.key, each.checkpoint, each.current);
}

void write_new(const Arguments& arguments) {
  require_count(arguments, 1, 1, "the path of a new file");
  const std::string& path = arguments.files.front();
  require_output(path, std::nullopt);
  const std::string text = ask_for_config(path, std::cin, std::cerr);
  write_file_durably(path, text);
  fmt::print("wrote {}. To check it and its data: {} train {} --dry-run\n", escaped(path),
             program_name(), format_argument(path));
}

void run(const Arguments& arguments) {
  if (arguments.action == "explain") explain(arguments);
  if (arguments.action == "schema") {
    require_count(arguments, 0, 0, "no arguments");
    fmt::print("{}\n", config_schema());
  }
  if (arguments.action == "diff") diff(arguments);
  if (arguments.action == "new") write_new(arguments);
}

void define(CLI::App& command, Arguments& arguments) {
  command.add_option("ACTION", arguments.action, "Action, see below")
      ->check(one_of({"explain", "diff", "schema", "new"}))
      ->required();
  add_path(command, "FILES", arguments.files,
           "For explain: a config file, and overrides such as model.d_model=128; for diff: "
           "two config files, runs or checkpoints; for new: a new file");
  command.add_flag("--json", arguments.json, "Print explain or diff as JSON");
  command.footer(
      "  explain CONFIG [section.key=value ...]  every key with its value, meaning and origin\n"
      "  diff A B                                keys whose values differ\n"
      "  schema                                  a JSON Schema of configs, for editors\n"
      "  new CONFIG                              asks for task and data, writes a config\n"
      "With the YAML language server, the first line of a config names the schema:\n"
      "  # yaml-language-server: $schema=tapestry.schema.json\n"
      "Examples:\n  tapestry config explain configs/copy.yaml train.steps=100\n"
      "  tapestry config diff runs/a runs/b\n"
      "  tapestry config schema > tapestry.schema.json\n"
      "  tapestry config new my.yaml");
}

}  // namespace
}  // namespace config_cli

extern const Command config_command{
    .name = "config",
    .purpose = "Explain, compare or write configs, or print their JSON Schema",
    .define = with_arguments(config_cli::define, config_cli::run)};

}  // namespace tapestry
