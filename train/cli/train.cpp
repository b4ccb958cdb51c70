// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "train/base/error.h"
#include "train/base/program.h"
#include "train/cli/command.h"
#include "train/config/config.h"
#include "train/config/fields.h"
#include "train/config/load.h"
#include "train/loop/training_run.h"
#include "train/parallel/launch.h"
#include "train/report/report_data.h"

namespace tapestry {
namespace train_cli {
namespace {

struct Arguments : RunOptions {
  bool resume = false;  ///< whether to continue a run
};

/// Whether a word is section.key=value: it has a dot and no slash before its first `=`.
bool is_override(const std::string& word) {
  const std::size_t equals = word.find('=');
  return equals != word.npos && word.find('/') > equals && word.find('.') < equals;
}

/// Whether a word names a YAML file, which may be missing, or any existing file except a
/// checkpoint.
bool is_config_file(const std::string& word) {
  if (word.ends_with(".yaml") || word.ends_with(".yml")) return true;
  std::error_code ignored;
  return std::filesystem::is_regular_file(word, ignored) && !word.ends_with(".h5");
}

/// Assigns the positional arguments of --resume: a config, a run directory or overrides, in any
/// order.
void sort_resume_arguments(Arguments& arguments) {
  std::vector<std::string> words{arguments.config};
  words.insert(words.end(), arguments.overrides.begin(), arguments.overrides.end());
  arguments.config.clear();
  arguments.overrides.clear();
  for (std::string& word : words) {
    std::string& place = is_config_file(word) ? arguments.config : arguments.run;
    if (is_override(word) || !place.empty()) {
      arguments.overrides.push_back(std::move(word));
    } else {
      place = std::move(word);
    }
  }
}

/// The options that must be equal in all processes, one per line.
std::string options_text(const Arguments& arguments) {
  std::string text = arguments.resume ? "--resume\n" : "";
  if (arguments.fresh) text += "--fresh\n";
  if (arguments.dry_run) text += "--dry-run\n";
  if (arguments.until != 0) text += fmt::format("--until {}\n", arguments.until);
  for (const std::string& key : arguments.allowed) text += "--allow-change " + key + "\n";
  return text;
}

/// The config without process settings. If a run is resumed without a config file, returns the
/// overrides on the command line.
std::string config_text(const Arguments& arguments) {
  if (!arguments.config.empty()) {
    const Config config = load_config(arguments.config, arguments.overrides);
    return dump_config(with_process_settings(config, Config{}));
  }
  std::string text;
  for (const std::string& change : arguments.overrides) {
    if (!is_process_setting(change.substr(0, change.find('=')))) text += change + "\n";
  }
  return text;
}

/// Requires that all processes have the same program version, options and config, so that either
/// all processes call start_run() or all call resume_run(). These functions compare the other
/// settings.
void require_same_command(ProcessGroup& group, const Arguments& arguments) {
  group.require_equal(
      "program", [] { return std::string(program_version); }, ExitCode::usage);
  group.require_equal(
      "command line", [&] { return options_text(arguments); }, ExitCode::usage);
  group.require_equal(
      "config", [&] { return config_text(arguments); }, ExitCode::usage);
}

void require_run(const Arguments& arguments) {
  if (!arguments.config.empty() || !arguments.run.empty()) return;
  throw UsageError(arguments.resume ? "a run directory or CONFIG is required"
                                    : "CONFIG or --resume RUN is required",
                   fmt::format("see `{} train --help`", program_name()));
}

int run(Arguments arguments) {
  arguments.started = std::chrono::steady_clock::now();
  if (arguments.resume) sort_resume_arguments(arguments);
  try {
    ProcessGroup& group = join_processes();
    require_same_command(group, arguments);
    require_run(arguments);
    const int code = arguments.resume ? resume_run(arguments, group) : start_run(arguments, group);
    group.together([] {});  // waits for all processes
    return code;
  } catch (...) {
    abort_all_at_exit();
    throw;
  }
}

void define(CLI::App& command, Arguments& arguments) {
  command
      .add_option("CONFIG", arguments.config,
                  "Config file (YAML); with --resume, a run directory, a config file or both")
      ->check(is_path());
  command.add_option("OVERRIDES", arguments.overrides,
                     "Config overrides, such as model.d_model=128");
  CLI::Option* const resume =
      command.add_flag("--resume", arguments.resume, "Resume the run from its newest checkpoint");
  command
      .add_option("--allow-change", arguments.allowed,
                  "Config key whose value may differ from the checkpoint, or key of a data file "
                  "whose contents may differ; repeat the option for each key")
      ->type_name("KEY")
      ->allow_extra_args(false)
      ->needs(resume);
  command
      .add_flag("--fresh", arguments.fresh,
                "Start a new run even if the directory contains a run, which is moved aside")
      ->excludes(resume);
  CLI::Option* const dry_run =
      command.add_flag("--dry-run", arguments.dry_run,
                       "Check config, data and memory and compute one step; write no files");
  CLI::Option* const profile = command.add_flag(
      "--profile", arguments.profile, "At the end, print the time spent in each operation");
  CLI::Option* const json =
      command.add_flag("--json", arguments.json, "Print one JSON object per line, for programs");
  command
      .add_flag("--quiet", arguments.quiet,
                "Print only warnings and errors, on standard error; the log file of the run stays "
                "complete")
      ->excludes(dry_run)
      ->excludes(json)
      ->excludes(profile);
  command
      .add_option("--until", arguments.until,
                  "Save and stop after this step; the run can be resumed")
      ->check(within(between(1, 1'000'000'000'000)))
      ->type_name("STEP")
      ->excludes(dry_run);
  command.footer(
      "Examples:\n  tapestry train configs/copy.yaml model.dropout=0.1\n"
      "  tapestry train --resume runs/copy\n"
      "  tapestry train --resume configs/copy.yaml        the same run, named by its config\n"
      "  tapestry train --resume runs/copy model.dropout=0.2 --allow-change model.dropout");
}

}  // namespace
}  // namespace train_cli

extern const Command train_command{.name = "train",
                                   .purpose = "Train a model, or resume training",
                                   .define = with_arguments(train_cli::define, train_cli::run),
                                   .memory_hint = smaller_run_hint,
                                   .output_is_the_result = false};

}  // namespace tapestry
