// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "train/config/domain.h"
#include "train/inference/sampler.h"
#include "train/tasks/task.h"

/// The definition of a command of the program. Each command is one file, train/cli/NAME.cpp, which
/// defines `extern const Command NAME_command`; commands.cpp lists them. Its Arguments, run() and
/// define() are in a namespace NAME_cli, so that several files can be compiled as one. A command
/// that answers lines of standard input is defined by its task, see LineCommand in
/// train/tasks/task.h.
namespace tapestry {

/// Runs a command whose arguments have been parsed. Returns its exit code; throws Error.
using Action = std::function<int()>;

/// Hint for std::bad_alloc.
inline constexpr const char* general_memory_hint =
    "end other programs or give it more memory (see `ulimit -v`)";
inline constexpr const char* smaller_model_hint =
    "try a smaller model, such as model.d_model=32, or give it more memory (see `ulimit -v`)";
inline constexpr const char* smaller_run_hint =
    "try a smaller train.batch_size with a larger train.accumulate, or a smaller model "
    "(model.d_model, model.num_encoder_layers, model.num_decoder_layers), or less data";

struct Command {
  const char* name;
  const char* purpose;                              ///< one line of `tapestry --help`
  std::function<Action(CLI::App& command)> define;  ///< adds arguments, options and examples
  const char* memory_hint = general_memory_hint;    ///< hint for std::bad_alloc
  bool answers_lines = false;  ///< true if it answers each line of standard input
  /// Whether the command fails if standard output cannot be written, and ends with SIGPIPE if the
  /// reader of a pipe exits.
  bool output_is_the_result = true;
};

/// Returns Command::define for a command with Arguments. `add` adds the arguments to the command.
/// `run` runs the command with their values and returns its exit code, or returns void if the exit
/// code is always 0.
template <class Arguments, class Add, class Run>
auto with_arguments(Add add, Run run) {
  return [add, run](CLI::App& command) -> Action {
    const auto arguments = std::make_shared<Arguments>();
    add(command, *arguments);
    return [arguments, run] {
      if constexpr (std::is_void_v<decltype(run(*arguments))>) {
        run(*arguments);
        return 0;
      } else {
        return static_cast<int>(run(*arguments));
      }
    };
  };
}

template <class Arguments, class Run>
auto with_arguments(void (*add)(CLI::App& command, Arguments& arguments), Run run) {
  return with_arguments<Arguments, decltype(add), Run>(add, run);
}

/// The command `tapestry NAME RUN`: reads lines of standard input and prints one line for each, in
/// order, with a model whose task has `line_command`. The command answers lines in batches. When no
/// further complete line is waiting, it answers the lines that it has read.
///
/// The command throws  UsageError if this is not the LineCommand of the model's task; DataError if
/// a line is not valid text or is rejected, after the answers to the preceding lines. --long-lines
/// decides how a line with more tokens than the model can read is answered.
///
/// line_command  must outlive the command
Command make_line_command(const LineCommand& line_command);

/// Like make_line_command(), for tasks that decode. Adds options for search, sampling and output.
Command make_translate_command(const LineCommand& line_command);

/// All commands, in the order of `tapestry --help`.
const std::vector<Command>& all_commands();

/// A command that has been added to a program.
struct AddedCommand {
  const Command& command;
  const CLI::App& app;  ///< its arguments and options
  Action run;           ///< runs it with the values that have been parsed
};

/// Adds all commands to the program, in the order of all_commands().
std::vector<AddedCommand> add_commands(CLI::App& program);

/// Parses the arguments of main() and assigns the values.
///
/// argc     at least 2
/// returns  the command that was given; null after printing the text of --help or --version
/// throws   UsageError; OutputError if help cannot be printed.
const AddedCommand* parse_command_line(CLI::App& program, const std::vector<AddedCommand>& commands,
                                       int argc, char** argv);

/// Completes the last word of a command line, for the scripts of completion_script(). Candidates
/// are the commands, options, config keys, values of keys and runs that start with the word.
/// Without candidates the shell completes a file name.
///
/// program  has all commands, see add_commands()
/// words    without the name of the program. If the shell splits words at `=` into `key`, `=` and
///          `value`, candidates are values, otherwise `key=value`.
/// returns  a line for each candidate: its text, a tab and its description, which may be empty
std::string complete(const CLI::App& program, const std::vector<std::string>& words);

/// The script that makes bash, zsh or fish complete command lines of the program. It passes the
/// words of the command line to the hidden command `complete` and offers the lines of its output.
std::string completion_script(std::string_view shell);

// ---- Output.

using Json = nlohmann::ordered_json;  // writes non-finite values as null

/// The value as JSON; null for nullopt.
template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

/// Prints JSON; bytes that are not UTF-8 are replaced.
///
/// indent  spaces for each level; -1: everything on one line
void print_json(const Json& json, int indent = 2);

/// Requires that a command may write a file at this path: nothing exists there or, with `replace`,
/// a regular file. Rejects folders, symbolic links, pipes and devices, which a rename would
/// replace, and the files of a run. Every command calls this function for its output before it
/// starts its work.
///
/// replace  the command's --force; nullopt for a command without it
/// throws   UsageError.
void require_output(const std::string& path, std::optional<bool> replace);

// ---- Arguments shared by several commands.

/// RUN: a run directory or checkpoint.
void add_run(CLI::App& command, std::string& run);

/// MODEL: a config file, run directory or checkpoint.
void add_model(CLI::App& command, std::string& model);

/// --threads: the number of threads of the command, for set_num_threads(). The number never changes
/// the results.
void add_threads(CLI::App& command, std::size_t& threads);

/// --json: print one JSON object.
void add_json(CLI::App& command, bool& json);

/// --force: replace an existing output, see require_output().
void add_force(CLI::App& command, bool& force);

/// OVERRIDES: any number of section.key=value.
void add_overrides(CLI::App& command, std::vector<std::string>& overrides);

/// --temperature, --top-k, --top-p, --repetition-penalty and --seed.
std::vector<CLI::Option*> add_sampling(CLI::App& command, SamplingOptions& sampling);

/// --long-lines, whose default is the value of `on_long_line`, one of `long_lines`.
void add_long_lines(CLI::App& command, std::string& on_long_line);

// ---- Checks of values. An error may have a hint, after a line feed.

/// Rejects an empty path, such as the value of an unset variable of a shell script, and a path that
/// begins with `~` or `$NAME`, which the shell has not expanded.
CLI::Validator is_path();

/// Accepts the values of a config domain. Help lists the words of OneOf as {a,b}.
CLI::Validator within(const Domain& domain);

/// Accepts only the texts in `choices`.
inline CLI::Validator one_of(const std::vector<std::string>& choices) {
  return within(OneOf{choices});
}

/// Adds an option with a value of a config domain. Help shows its default, if it has one.
template <class T>
CLI::Option* add_value(CLI::App& command, const std::string& name, T& value, const Domain& domain,
                       const std::string& help) {
  CLI::Option* const option = command.add_option(name, value, help)->check(within(domain));
  if constexpr (!requires { value.has_value(); }) option->capture_default_str();
  return option;
}

/// Adds an option or argument for one or several paths; rejects empty paths.
template <class T>
CLI::Option* add_path(CLI::App& command, const std::string& name, T& path,
                      const std::string& help) {
  return command.add_option(name, path, help)->check(is_path());
}

}  // namespace tapestry
