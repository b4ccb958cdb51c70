#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
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
#include "train/cli/new_config.h"
#include "train/cli/open_model.h"
#include "train/config/help.h"

namespace tapestry {
namespace config_cli {
namespace {

using Json = nlohmann::ordered_json;

struct Arguments {
  std::string action;
  std::vector<std::string> files{};
  bool json = false;
};

std::string dump(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

/// throws  UsageError if the action needs more or fewer arguments
void require_count(const Arguments& arguments, std::size_t least, std::size_t most,
                   const char* expected) {
  const std::size_t count = arguments.files.size();
  if (count >= least && count <= most) return;
  throw UsageError(
      fmt::format("config {} takes {}, found {} arguments", arguments.action, expected, count),
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
                    {"percent_of_steps", each.percent ? Json(*each.percent) : Json(nullptr)},
                    {"origin", each.origin},
                    {"default", each.key.default_value},
                    {"meaning", each.key.meaning},
                    {"expected", each.key.expected},
                    {"in_use", each.in_use}});
  }
  fmt::print("{}\n", dump(json));
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
      json.push_back({{"key", each.key}, {"a", each.checkpoint}, {"b", each.now}});
    }
    fmt::print("{}\n", dump(json));
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
  for (const ConfigDifference& each : differences) print_row(each.key, each.checkpoint, each.now);
}

void write_new(const Arguments& arguments) {
  require_count(arguments, 1, 1, "the path of a new file");
  const std::string& path = arguments.files.front();
  std::error_code ignored;
  if (std::filesystem::exists(std::filesystem::symlink_status(path, ignored))) {
    throw UsageError(fmt::format("{} exists, expected the name of a new file", escaped(path)),
                     "choose another name, or delete the file");
  }
  const std::string text = ask_for_config(path, std::cin, std::cerr);
  write_file_durably(path, std::as_bytes(std::span(text)));
  fmt::print("{} is written. To check it and its data: {} train {} --dry-run\n", escaped(path),
             program_name(), format_argument(path));
}

int run(const Arguments& arguments) {
  if (arguments.action == "explain") explain(arguments);
  if (arguments.action == "schema") {
    require_count(arguments, 0, 0, "no arguments");
    fmt::print("{}\n", config_schema());
  }
  if (arguments.action == "diff") diff(arguments);
  if (arguments.action == "new") write_new(arguments);
  return static_cast<int>(ExitCode::done);
}

Action define(CLI::App& command) {
  const auto arguments = std::make_shared<Arguments>();
  command.add_option("ACTION", arguments->action, "What to do, see below")
      ->check(one_of({"explain", "diff", "schema", "new"}))
      ->required();
  command.add_option("FILES", arguments->files,
                     "Config file, and overrides such as model.d_model=128; for diff, two config "
                     "files, runs or checkpoints; for new, a new file");
  command.add_flag("--json", arguments->json, "Print explain or diff as JSON");
  command.footer(
      "  explain CONFIG [section.key=value ...]  every key with its value, meaning and origin\n"
      "  diff A B                                the keys whose values differ\n"
      "  schema                                  a JSON Schema of configs, for editors\n"
      "  new CONFIG                              asks for task and data, and writes a config\n"
      "With the YAML language server, the first line of a config names the schema:\n"
      "  # yaml-language-server: $schema=tapestry.schema.json\n"
      "Examples:\n  tapestry config explain configs/copy.yaml train.steps=100\n"
      "  tapestry config diff runs/a runs/b\n"
      "  tapestry config schema > tapestry.schema.json");
  return [arguments] { return run(*arguments); };
}

}  // namespace
}  // namespace config_cli

const Command config_command{
    .name = "config",
    .purpose = "Explain, compare or write configs, or print their JSON Schema",
    .define = config_cli::define};

}  // namespace tapestry
