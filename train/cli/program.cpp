#include "train/cli/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "autograd/kernels/memory.h"
#include "data/io/error.h"
#include "data/io/utf8.h"
#include "train/cli/argument_parser.h"
#include "train/cli/command.h"
#include "train/cli/man.h"
#include "train/config/domains.h"
#include "train/config/text.h"
#include "train/error.h"
#include "train/format.h"
#include "train/platform/exit_code.h"
#include "train/platform/machine.h"
#include "train/platform/program_name.h"
#include "train/platform/standard_streams.h"
#include "train/tasks/custom_model.h"

namespace tapestry {
namespace {

/// Runs a command that prints a result, and fails unless all output was written; if the reader of a
/// pipe is gone, SIGPIPE ends the process.
int run_and_flush(const Action& action) {
  end_on_broken_pipe();
  int code = 0, error = 0;
  try {
    code = action();
  } catch (const std::system_error& failed) {  // thrown by fmt::print
    if (std::ferror(stdout) == 0) throw;
    error = failed.code().value();
  }
  flush_standard_output(error);
  return code;
}

std::string program_footer() {
  std::string text =
      fmt::format("`{} help COMMAND` says more about each.\n\nExit codes:", program_name());
  for (const auto& [code, meaning] : manual_exit_codes()) {
    text += fmt::format("\n  {:<10}{}", code, meaning);
  }
  return text;
}

/// "tapestry 1.0"; of another program "NAME, with tapestry 1.0".
std::string version_line() {
  const std::string library = fmt::format("tapestry {}", program_version);
  return program_name() == "tapestry" ? library
                                      : fmt::format("{}, with {}", program_name(), library);
}

/// The command line: all commands, of which the user gave one.
class CommandLine {
 public:
  CommandLine();

  /// Returns false if help or the version was requested; it has been printed.
  bool parse(int argc, char** argv);
  /// The help of a command, or of the program if the name is empty.
  std::string help(const std::string& command) const;
  const char* memory_hint() const { return given_->memory_hint; }
  int run() const { return given_->action(); }

 private:
  struct Entry {
    const ArgumentParser* parser;
    Action action;
    const char* memory_hint;
  };

  void add(const Command& command);
  void require_command(const std::string& word) const;
  [[noreturn]] void refuse_unexpected(const std::string& argument) const;
  [[noreturn]] void refuse(const std::string& mistake,
                           const std::optional<std::string>& meant = std::nullopt) const;

  ArgumentParser parser_{program_name(), "Trains Transformers on the CPU, from config files."};
  std::vector<std::string> names_;
  std::vector<Entry> entries_;
  const Entry* given_ = nullptr;
};

CommandLine::CommandLine() {
  parser_.add_version(version_line());
  for (const Command& command : all_commands()) add(command);
  parser_.set_footer(program_footer());  // commands inherit an earlier one
}

void CommandLine::add(const Command& command) {
  names_.emplace_back(command.name);
  ArgumentParser& parser = parser_.add_command(command.name, command.purpose);
  Action action = define_command(command, parser);
  if (command.output_is_the_result) {
    action = [action = std::move(action)] { return run_and_flush(action); };
  }
  entries_.push_back({&parser, std::move(action), command.memory_hint});
}

void CommandLine::require_command(const std::string& word) const {
  if (word == "-h" || word == "--help" || word == "--version") return;
  if (std::ranges::find(names_, word) != names_.end()) return;
  if (word.starts_with('-')) refuse(fmt::format("found {}, expected a command first", word));
  const auto meant = closest(word, names_);
  throw UsageError(fmt::format("unknown command `{}`", word),
                   meant ? fmt::format("did you mean `{}`?", *meant)
                         : fmt::format("use {}", list_in_words(names_)));
}

std::string CommandLine::help(const std::string& command) const {
  return command.empty() ? parser_.help() : parser_.help(command);
}

/// Refuses an argument that the command does not take.
void CommandLine::refuse_unexpected(const std::string& argument) const {
  if (argument == "--") refuse("found `--`, expected nothing more");
  const ArgumentParser& given = *parser_.given_command();
  if (!argument.starts_with('-')) {
    const std::string mistake = fmt::format("found `{}`, expected nothing more", argument);
    const auto command = std::ranges::find_if(
        all_commands(), [&](const Command& each) { return given.name() == each.name; });
    if (!command->answers_lines) refuse(mistake);
    std::error_code ignored;
    throw UsageError(mistake,
                     std::filesystem::exists(argument, ignored)
                         ? fmt::format("to read a file, write < {}", format_argument(argument))
                         : "give it the lines as standard input, such as `< FILE`");
  }
  std::vector<std::string> options;
  for (const Option* option : given.options()) {
    for (const std::string& name : option->long_names()) options.push_back("--" + name);
  }
  refuse(fmt::format("there is no option {}", argument), closest(argument, options));
}

void CommandLine::refuse(const std::string& mistake,
                         const std::optional<std::string>& meant) const {
  const ArgumentParser* given = parser_.given_command();
  const std::string command = given == nullptr ? "" : given->name() + " ";
  throw UsageError(mistake, meant ? fmt::format("did you mean {}?", *meant)
                                  : fmt::format("see `{} {}--help`", program_name(), command));
}

bool CommandLine::parse(int argc, char** argv) {
  if (argc < 2) refuse("a command is required");
  require_command(argv[1]);
  try {
    if (const auto help_or_version = parser_.parse(argc, argv)) {
      run_and_flush([&] {
        fmt::print("{}", *help_or_version);
        return static_cast<int>(ExitCode::done);
      });
      return false;
    }
  } catch (const UnexpectedArgument& error) {
    refuse_unexpected(error.argument());
  } catch (const InvalidArgument& error) {
    if (!error.hint().empty()) throw UsageError(error.what(), error.hint());
    refuse(error.what());
  }
  const auto is_given = [&](const Entry& entry) { return entry.parser == parser_.given_command(); };
  given_ = &*std::ranges::find_if(entries_, is_given);
  return true;
}

/// Reports an error. The exit code indicates the failure even if the message cannot be printed.
int fail(ExitCode code, const std::string& message, const std::string& hint = "") {
  std::string text = fmt::format("{}: error: {}\n", program_name(), escaped_lines(message));
  if (!hint.empty()) text += fmt::format("hint: {}\n", escaped_lines(hint));
  std::fputs(text.c_str(), stderr);
  return static_cast<int>(code);
}

/// Reports an error that neither the user nor the machine has caused.
int fail_by_bug(const std::string& error) {
  const std::vector<std::string> custom = custom_kinds();
  if (custom.empty()) {
    return fail(ExitCode::bug, fmt::format("{} (this is a bug of tapestry)", error),
                "please report it with the command line and the config");
  }
  // For instance the gradient of an operation of the model, which no function of it calls, or the
  // reader of a task's data.
  return fail(
      ExitCode::bug,
      fmt::format("{} (this is a bug of the code of the custom model {}, or of tapestry)", error,
                  list_in_words(custom)),
      "look for what throws in its code, such as the reader of its data or the gradient of an "
      "operation");
}

/// Runs the program and maps an exception to its exit code.
///
/// memory_hint  hint for std::bad_alloc; read when the exception is caught
int guarded(const auto& program, const std::string& memory_hint) {
  try {
    return program();
  } catch (const UserError& error) {
    return fail(error.exit_code(), error.what(), error.hint());
  } catch (const std::exception& error) {
    if (to_exit_code(std::current_exception()) != ExitCode::memory) {
      return fail_by_bug(error.what());
    }
    std::string detail;
    if (dynamic_cast<const kernels::OutOfMemory*>(&error) != nullptr) {
      detail = fmt::format(": {}", error.what());
    } else if (dynamic_cast<const std::system_error*>(&error) != nullptr) {
      detail = " for a thread, or permits no more threads (ulimit -u)";
    }
    return fail(ExitCode::memory, "the system has no more memory" + detail, memory_hint);
  } catch (...) {
    return fail_by_bug("an object was thrown that is not a std::exception");
  }
}

/// Makes the custom models of a program, which exist until it ends, and registers them and its
/// tasks.
///
/// throws  CustomModelError.
void add_to_program(const ProgramOptions& options) {
  static std::deque<CustomModel> models;
  for (const CustomModelOptions& model : options.models) register_task(models.emplace_back(model));
  for (const Task* task : options.tasks) register_task(*task);
}

/// The name of the options, or the last part of the path of the program.
std::string chosen_name(const ProgramOptions& options, int argc, char** argv) {
  if (!options.name.empty()) return options.name;
  const std::string name = argc > 0 ? std::filesystem::path(argv[0]).filename().string() : "";
  return name.empty() ? "tapestry" : name;
}

/// The command that the user gave, with its arguments.
struct GivenCommand {
  std::string memory_hint;   ///< hint for std::bad_alloc
  std::function<int()> run;  ///< returns the exit code; throws what the command throws
};

/// Parses the arguments of the program. nullopt if they request help or the version, which has then
/// been printed.
///
/// throws  UsageError; OutputError if help cannot be printed.
std::optional<GivenCommand> parse_command_line(int argc, char** argv) {
  const auto line = std::make_shared<CommandLine>();
  if (!line->parse(argc, argv)) return std::nullopt;
  return GivenCommand{.memory_hint = line->memory_hint(), .run = [line] { return line->run(); }};
}

}  // namespace

std::string help_text(const std::string& command) { return CommandLine().help(command); }

int run_program(int argc, char** argv) { return run_program(argc, argv, {}); }

int run_program(int argc, char** argv, const ProgramOptions& options) {
  prepare_standard_streams();
  set_program_name(chosen_name(options, argc, argv));
  std::string memory_hint = general_memory_hint;
  const auto program = [&] {
    add_to_program(options);
    const auto given = parse_command_line(argc, argv);
    if (!given) return static_cast<int>(ExitCode::done);
    memory_hint = given->memory_hint;
    return given->run();
  };
  return guarded(program, memory_hint);
}

}  // namespace tapestry
