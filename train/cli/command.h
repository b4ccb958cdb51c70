#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "train/config/domains.h"
#include "train/tasks/task.h"

/// What a command of the program consists of. Each command is one file, train/cli/NAME.cpp, which
/// defines a Command; commands.cpp lists them. A command that answers lines of standard input is
/// defined by its task, see LineCommand in train/tasks/task.h.
namespace tapestry {

/// Runs a command whose arguments have been parsed. Returns its exit code; throws Error.
using Action = std::function<int()>;

/// What to do if there is not enough memory.
inline constexpr const char* general_memory_hint =
    "end other programs or give it more memory (see `ulimit -v`)";
inline constexpr const char* smaller_model_hint =
    "try a smaller model, such as model.d_model=32, or give it more memory (see `ulimit -v`)";

struct Command {
  const char* name;
  const char* purpose;                            ///< one line of `tapestry --help`
  std::function<Action(CLI::App& app)> define;    ///< adds arguments, options and examples
  const char* memory_hint = general_memory_hint;  ///< what to do if there is not enough memory
  bool answers_lines = false;                     ///< answers each line of standard input
  bool output_is_the_result = true;               ///< fails if standard output cannot be written
};

extern const Command train_command, evaluate_command, generate_command, gradcheck_command,
    check_command, attention_command, inspect_command;

/// The command `tapestry NAME RUN`: standard input to standard output, a line out for each line in,
/// in order, by a model whose task has that LineCommand. Many lines are answered at once, but each
/// as it comes where it is typed.
///
/// The command throws  UsageError if the task of the model has another command or none; DataError,
///                     behind the answers to the lines before, if a line is no text or is refused.
///
/// line_command  must outlive the command
Command make_line_command(const LineCommand& line_command);

/// All commands, in the order of `tapestry --help`.
const std::vector<Command>& all_commands();

// ---- Arguments that several commands have.

/// RUN: a run directory or checkpoint.
void add_run(CLI::App& app, std::string& run);

/// MODEL: a config file, run directory or checkpoint.
void add_model(CLI::App& app, std::string& model);

/// OVERRIDES: any number of section.key=value.
void add_overrides(CLI::App& app, std::vector<std::string>& overrides);

/// Accepts the values of a domain, as configs do. A hint stands behind a line feed.
template <class Domain>
CLI::Validator within(const Domain& domain) {
  const auto find_problem = [domain](const std::string& text) {
    const auto parsed = domain.parse(text);
    const Mistake* mistake = std::get_if<Mistake>(&parsed);
    if (mistake == nullptr) return std::string();
    return mistake->hint.empty() ? mistake->message : mistake->message + "\n" + mistake->hint;
  };
  return CLI::Validator(find_problem, "");
}

}  // namespace tapestry
