// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <regex>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "autograd/kernels/parallel.h"
#include "data/io/error.h"
#include "data/io/utf8.h"
#include "train/base/error.h"
#include "train/base/program.h"
#include "train/checkpoint/run_directory.h"
#include "train/cli/command.h"
#include "train/models/line_input.h"
#include "train/tasks/task.h"

namespace tapestry {

// Each command is defined in cli/NAME.cpp; all_commands() determines their order.
extern const Command train_command, plan_command, evaluate_command, score_command, generate_command,
    gradcheck_command, check_command, attention_command, explain_command, inspect_command,
    report_command, runs_command, watch_command, diff_command, replay_command, errors_command,
    average_command, sweep_command, config_command, bleu_command, compare_command,
    completion_command;

namespace {

/// Adds the LineCommands of all tasks, without duplicates.
void add_line_commands(std::vector<Command>& commands) {
  for (const Task* task : all_tasks()) {
    const LineCommand* command = task->answers().command();
    if (command == nullptr) continue;
    const auto same_name = [&](const Command& other) {
      return std::string_view(other.name) == command->name;
    };
    if (std::ranges::any_of(commands, same_name)) continue;
    commands.push_back(command->decodes ? make_translate_command(*command)
                                        : make_line_command(*command));
  }
}

/// The help of the program. CLI::App::help() would return the help of the command `help`.
std::string all_commands_help(const CLI::App& program) {
  return program.get_formatter()->make_help(&program, program.get_name(),
                                            CLI::AppFormatMode::Normal);
}

/// Help for an action of a command, from the command's footer: the line that describes the action,
/// and its examples.
///
/// throws  UsageError if the command does not have this action
std::string action_help(const CLI::App& command, const std::string& action) {
  const std::string line_start = fmt::format("  {} ", action);
  const std::string example = fmt::format("{} {} ", command.get_name(), action);
  std::string described, examples;
  std::istringstream footer(command.get_footer());
  for (std::string line; std::getline(footer, line);) {
    const std::string text = line + "\n";
    if (text.starts_with(line_start)) described = text;
    if (text.find(example) != text.npos) examples += text;
  }
  if (command.get_option_no_throw("ACTION") == nullptr || described.empty()) {
    throw UsageError(fmt::format("`{}` has no action `{}`", command.get_name(), escaped(action)),
                     fmt::format("see `{} help {}`", program_name(), command.get_name()));
  }
  return fmt::format("Usage: {} {} ACTION\n\n{}{}{}", program_name(), command.get_name(), described,
                     examples.empty() ? "" : "Examples:\n", examples);
}

/// Defines `tapestry help COMMAND`, which prints the same text as `tapestry COMMAND --help`.
Action define_help(CLI::App& command) {
  const auto name = std::make_shared<std::string>();
  std::vector<std::string> names;
  for (const Command& each : all_commands()) names.emplace_back(each.name);
  command.add_option("COMMAND", *name, "Command to describe; without it, all commands are listed")
      ->check(one_of(names));
  const auto action = std::make_shared<std::string>();
  command.add_option("ACTION", *action, "An action of the command, such as `new` of `config`");
  command.footer("Examples:\n  tapestry help\n  tapestry help train\n  tapestry help config new");
  return [name, action, &program = *command.get_parent()] {
    if (name->empty()) {
      fmt::print("{}", all_commands_help(program));
    } else {
      const CLI::App& described = *program.get_subcommand(*name);
      fmt::print("{}", action->empty() ? described.help(program.get_name())
                                       : action_help(described, *action));
    }
    return static_cast<int>(ExitCode::done);
  };
}

const Command help_command{.name = "help",
                           .purpose = "Print the arguments and options of a command",
                           .define = define_help};

/// The text with program_name() in place of `tapestry` in commands such as `tapestry train`.
std::string with_program_name(const std::string& text) {
  static const std::regex command("\\btapestry(?= (?!or )[a-z]|-config\\b)");
  if (program_name() == "tapestry") return text;
  // Escapes `$`, which regex_replace would read as a back-reference.
  std::string name;
  for (const char c : program_name()) name += c == '$' ? std::string("$$") : std::string(1, c);
  return std::regex_replace(text, command, name);
}

}  // namespace

const std::vector<Command>& all_commands() {
  static const std::vector<Command> all = [] {
    std::vector<Command> commands{train_command, plan_command, evaluate_command};
    add_line_commands(commands);
    for (const Command& command :
         {score_command,     generate_command, gradcheck_command,  check_command,
          attention_command, explain_command,  inspect_command,    report_command,
          runs_command,      watch_command,    diff_command,       replay_command,
          errors_command,    average_command,  sweep_command,      config_command,
          bleu_command,      compare_command,  completion_command, help_command}) {
      commands.push_back(command);
    }
    return commands;
  }();
  return all;
}

std::vector<AddedCommand> add_commands(CLI::App& program) {
  program.require_subcommand(1);
  std::vector<AddedCommand> added;
  for (const Command& command : all_commands()) {
    CLI::App& app = *program.add_subcommand(command.name, command.purpose);
    added.push_back({.command = command, .app = app, .run = command.define(app)});
    app.footer(with_program_name(app.get_footer()));
    for (CLI::Option* option : app.get_options({})) {
      if (option->get_items_expected_max() == 0) option->disable_flag_override();
    }
  }
  return added;
}

void print_json(const Json& json, int indent) {
  fmt::print("{}\n",
             for_standard_output(json.dump(indent, ' ', false, Json::error_handler_t::replace)));
}

void require_output(const std::string& path, std::optional<bool> replace) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::file_status status = fs::symlink_status(path, ignored);
  if (is_file_of_run(path)) {
    throw UsageError(
        fmt::format("{} belongs to a run, expected the name of another file", escaped(path)),
        "choose a path outside of the run directory");
  }
  if (!fs::exists(status) || (replace.value_or(false) && fs::is_regular_file(status))) return;
  const char* const found = fs::is_regular_file(status) ? nullptr
                            : fs::is_directory(status)  ? "a folder"
                            : fs::is_symlink(status)    ? "a symbolic link"
                                                        : "a pipe, socket or device";
  if (found != nullptr) {
    throw UsageError(fmt::format("{} is {}, expected the name of a new file", escaped(path), found),
                     "choose another name");
  }
  throw UsageError(fmt::format("{} exists, expected the name of a new file", escaped(path)),
                   replace ? "choose another name, or replace the file with --force"
                           : "choose another name, or delete the file");
}

// ---- Arguments shared by several commands.

void add_run(CLI::App& command, std::string& run) {
  add_path(command, "RUN", run, "Run directory or checkpoint")->required();
}

void add_model(CLI::App& command, std::string& model) {
  add_path(command, "MODEL", model,
           "Config file (initial values), run directory or checkpoint (trained values)")
      ->required();
}

void add_threads(CLI::App& command, std::size_t& threads) {
  add_value(command, "--threads", threads, between(0, kernels::max_threads),
            "Number of threads; 0: all cores");
}

void add_json(CLI::App& command, bool& json) {
  command.add_flag("--json", json, "Print one JSON object");
}

void add_force(CLI::App& command, bool& force) {
  command.add_flag("--force", force, "Replace the output file if it exists");
}

void add_overrides(CLI::App& command, std::vector<std::string>& overrides) {
  command.add_option(
      "OVERRIDES", overrides,
      "Config overrides, such as model.d_model=128. For a run or checkpoint: only data files and "
      "keys of the section `decoding`, such as data.test_text=more.txt");
}

std::vector<CLI::Option*> add_sampling(CLI::App& command, SamplingOptions& sampling) {
  return {
      add_value(
          command, "--temperature", sampling.temperature, RealNumber{.high = 1e6},
          "Sampling temperature, which divides the logits; 0: always take the most likely token"),
      add_value(command, "--top-k", sampling.top_k, between(0, 1'000'000'000),
                "Sample from this number of most likely tokens; 0: from all tokens"),
      add_value(command, "--top-p", sampling.top_p, RealNumber{.high = 1.0, .has_low = false},
                "Sample from the smallest set of most likely tokens with this total probability"),
      add_value(command, "--repetition-penalty", sampling.repetition_penalty,
                RealNumber{.high = 1e6, .has_low = false},
                "Penalty for tokens that have occurred: divides their positive logits and "
                "multiplies their negative ones; 1: no penalty"),
      add_value(command, "--seed", sampling.seed, at_least(0), "Random seed for sampling")};
}

void add_long_lines(CLI::App& command, std::string& on_long_line) {
  add_value(
      command, "--long-lines", on_long_line,
      OneOf{{long_lines::empty, long_lines::cut, long_lines::stop}},
      "For a line with more tokens than the model can read: `empty` prints an empty line, `cut` "
      "processes only its first tokens, `stop` ends with an error");
}

// ---- Checks of values.

CLI::Validator is_path() {
  const auto problem = [](const std::string& path) -> std::string {
    if (path.empty()) return "found an empty text, expected a path";
    // A shell does not always expand `~` and `$NAME`, for example in quotes.
    const auto error = find_shell_path(path);
    return error ? error->message + "\n" + error->hint : "";
  };
  return {problem, ""};
}

CLI::Validator within(const Domain& domain) {
  const auto problem = [domain](const std::string& text) {
    const Parsed parsed = domain.parse(text);
    const auto* error = std::get_if<Diagnostic>(&parsed);
    if (error == nullptr) return std::string();
    return error->hint.empty() ? error->message : error->message + "\n" + error->hint;
  };
  const bool is_choice = domain.is<OneOf>();
  return {problem, is_choice ? fmt::format("{{{}}}", fmt::join(domain.words(), ",")) : ""};
}

}  // namespace tapestry
