#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "train/cli/argument_parser.h"
#include "train/config/domains.h"
#include "train/tasks/task.h"

/// The definition of a command of the program. Each command is one file, train/cli/NAME.cpp, which
/// defines a Command; commands.cpp lists them. Its Arguments, run() and define() are in a namespace
/// NAME_cli, so that several files can be compiled as one. A command that answers lines of standard
/// input is defined by its task, see LineCommand in train/tasks/task.h.
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
  const char* purpose;                                   ///< one line of `tapestry --help`
  std::function<Action(ArgumentParser& parser)> define;  ///< adds arguments, options and examples
  const char* memory_hint = general_memory_hint;         ///< hint for std::bad_alloc
  bool answers_lines = false;  ///< true if it answers each line of standard input
  /// Whether it fails if standard output cannot be written, and SIGPIPE ends it.
  bool output_is_the_result = true;
};

/// The help of a command, or of the program if the name is empty; as --help prints it.
std::string help_text(const std::string& command);

extern const Command train_command, plan_command, evaluate_command, generate_command,
    gradcheck_command, check_command, attention_command, explain_command, inspect_command,
    report_command, runs_command, watch_command, diff_command, replay_command, errors_command,
    average_command, sweep_command, config_command, score_command, bleu_command, compare_command,
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

/// The same for a LineCommand whose tasks decode: with options of search, sampling and output.
Command make_translate_command(const LineCommand& line_command);

/// All commands, in the order of `tapestry --help`.
const std::vector<Command>& all_commands();

// ---- Arguments shared by several commands.

/// Refuses an empty path, such as the value of an unset variable of a shell script.
ValueCheck not_empty();

/// RUN: a run directory or checkpoint.
void add_run(ArgumentParser& parser, std::string& run);

/// MODEL: a config file, run directory or checkpoint.
void add_model(ArgumentParser& parser, std::string& model);

/// --threads: the number of threads of the command, which never changes its results. The command
/// passes the value to set_num_threads().
void add_threads(ArgumentParser& parser, std::size_t& threads);

/// --json: print one JSON object.
void add_json(ArgumentParser& parser, bool& json);

/// OVERRIDES: any number of section.key=value.
void add_overrides(ArgumentParser& parser, std::vector<std::string>& overrides);

/// An argument with one of the values `choices`. Help lists them as {a,b}.
Option& add_choice(ArgumentParser& parser, const std::string& name, std::string& value,
                   const std::vector<std::string>& choices, const std::string& description);

/// Accepts the values of a config domain.
ValueCheck within(const WholeNumber& domain);
ValueCheck within(const RealNumber& domain);
ValueCheck within(const OneOf& domain);  ///< help lists the names

// ---- Descriptions of the commands, for manual pages and shell completion.

/// The text with program_name() in place of `tapestry` in commands such as `tapestry train`.
std::string with_program_name(const std::string& text);

/// Calls command.define(), and gives its help the name of the program.
Action define_command(const Command& command, ArgumentParser& parser);

/// The arguments and options of a command, as its `define` adds them.
std::unique_ptr<ArgumentParser> describe(const Command& command);

/// RUN, MODEL, OVERRIDES ...: the name of a positional argument, the type of another option's
/// value.
std::string argument_name(const Option& option);

}  // namespace tapestry
