#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "train/config/domains.h"
#include "train/tasks/task.h"

/// The definition of a command of the program. Each command is one file, train/cli/NAME.cpp, which
/// defines a Command; commands.cpp lists them. A command that answers lines of standard input is
/// defined by its task, see LineCommand in train/tasks/task.h.
namespace tapestry {

/// Runs a command whose arguments have been parsed. Returns its exit code; throws Error.
using Action = std::function<int()>;

/// Hint for std::bad_alloc.
inline constexpr const char* general_memory_hint =
    "end other programs or give it more memory (see `ulimit -v`)";
inline constexpr const char* smaller_model_hint =
    "try a smaller model, such as model.d_model=32, or give it more memory (see `ulimit -v`)";

struct Command {
  const char* name;
  const char* purpose;                            ///< one line of `tapestry --help`
  std::function<Action(CLI::App& app)> define;    ///< adds arguments, options and examples
  const char* memory_hint = general_memory_hint;  ///< hint for std::bad_alloc
  bool answers_lines = false;  ///< true if it answers each line of standard input
  /// Whether it fails if standard output cannot be written, and SIGPIPE ends it.
  bool output_is_the_result = true;
};

/// The help of a command, or of the program if the name is empty; as --help prints it.
std::string help_text(const std::string& command);

extern const Command train_command, evaluate_command, generate_command, gradcheck_command,
    check_command, attention_command, inspect_command, bleu_command, compare_command,
    completion_command, man_command, help_command;

/// The command `tapestry NAME RUN`: reads lines of standard input and prints one line for each, in
/// order, with a model whose task has `line_command`. Lines are answered in batches; whenever no
/// further complete line is waiting, those that have been read are answered.
///
/// The command throws  UsageError if the task of the model has another LineCommand or none;
/// DataError if a line is not valid text or is refused, after the answers to the preceding lines. A
/// line with more tokens than the model can read is answered as --long-lines says.
///
/// line_command  must outlive the command
Command make_line_command(const LineCommand& line_command);

/// All commands, in the order of `tapestry --help`.
const std::vector<Command>& all_commands();

// ---- Arguments shared by several commands.

/// Refuses an empty path, such as the value of an unset variable of a shell script.
CLI::Validator not_empty();

/// RUN: a run directory or checkpoint.
void add_run(CLI::App& app, std::string& run);

/// MODEL: a config file, run directory or checkpoint.
void add_model(CLI::App& app, std::string& model);

/// --threads: the number of threads of the command, which never changes its results. The command
/// passes the value to set_num_threads().
void add_threads(CLI::App& app, std::size_t& threads);

/// --json: print one JSON object.
void add_json(CLI::App& app, bool& json);

/// OVERRIDES: any number of section.key=value.
void add_overrides(CLI::App& app, std::vector<std::string>& overrides);

/// An argument with one of the values `choices`. Help lists them as {a,b}.
CLI::Option* add_choice(CLI::App& app, const std::string& name, std::string& value,
                        const std::vector<std::string>& choices, const std::string& description);

// ---- Descriptions of the commands, for manual pages and shell completion.

/// The text with program_name() in place of `tapestry` in commands such as `tapestry train`.
std::string with_program_name(const std::string& text);

/// Calls command.define(), and gives its help the name of the program.
Action define_command(const Command& command, CLI::App& app);

/// The arguments and options of a command, as its `define` adds them.
std::unique_ptr<CLI::App> describe(const Command& command);

/// RUN, MODEL, OVERRIDES ...: the name of a positional argument, the type of another option's
/// value.
std::string argument_name(const CLI::Option& option);

/// The choices of an argument that add_choice() added; empty for others.
std::vector<std::string> argument_choices(const CLI::Option& option);

/// Whether an option has no value.
inline bool is_flag(const CLI::Option& option) { return option.get_items_expected_max() == 0; }

/// Whether an argument or option may be given several times.
bool is_repeatable(const CLI::Option& option);

/// Accepts the values of a config domain. In the error message the hint follows after a line feed.
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
