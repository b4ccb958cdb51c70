#include "train/cli/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <deque>
#include <exception>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "autograd/kernels/memory.h"
#include "data/io/error.h"
#include "data/io/utf8.h"
#include "train/base/error.h"
#include "train/base/format.h"
#include "train/base/program.h"
#include "train/cli/command.h"
#include "train/config/domain.h"
#include "train/config/text.h"
#include "train/system/machine.h"
#include "train/system/standard_streams.h"
#include "train/tasks/custom_model.h"

namespace tapestry {
namespace {

struct ExitCodeMeaning {
  std::string_view code, meaning;
};

constexpr std::array exit_codes{
    ExitCodeMeaning{"0", "done"},
    ExitCodeMeaning{
        "1",
        "an internal error, an error in a custom model, a wrong gradient, a failed check, or "
        "a difference that `diff` or `replay` has found"},
    ExitCodeMeaning{"2", "invalid command line or config"},
    ExitCodeMeaning{"3", "invalid data"},
    ExitCodeMeaning{"4", "a checkpoint cannot be used"},
    ExitCodeMeaning{
        "5",
        "output could not be written; if the reader of a pipe is gone, SIGPIPE ends a command "
        "instead (141 in a shell), but never a training run"},
    ExitCodeMeaning{"6", "NaN, infinity or divergence"},
    ExitCodeMeaning{"7", "another process uses the run directory"},
    ExitCodeMeaning{"8", "not enough memory"},
    ExitCodeMeaning{"9", "another process of a parallel run failed"},
    ExitCodeMeaning{"124", "stopped by `train.max_time`, after saving"},
    ExitCodeMeaning{"128 + n", "stopped by signal n, after saving"},
};

std::string program_footer() {
  std::string text =
      fmt::format("`{} help COMMAND` says more about each.\n\nExit codes:", program_name());
  for (const auto& [code, meaning] : exit_codes) text += fmt::format("\n  {:<10}{}", code, meaning);
  return text;
}

/// "tapestry 1.0"; of another program "NAME, with tapestry 1.0".
std::string version_line() {
  const std::string library = fmt::format("tapestry {}", program_version);
  return program_name() == "tapestry" ? library
                                      : fmt::format("{}, with {}", program_name(), library);
}

// ---- Parsing.

/// Rejects the command line. The hint is what the user may have meant, or the help of the command.
[[noreturn]] void reject(const CLI::App& program, const std::string& mistake,
                         const std::optional<std::string>& meant = std::nullopt) {
  const auto given = program.get_subcommands();
  const std::string command = given.empty() ? "" : given.front()->get_name() + " ";
  throw UsageError(mistake, meant ? fmt::format("did you mean {}?", *meant)
                                  : fmt::format("see `{} {}--help`", program_name(), command));
}

void require_command(const CLI::App& program, const std::string& word) {
  if (word == "-h" || word == "--help" || word == "--version") return;
  std::vector<std::string> names;
  for (const Command& command : all_commands()) names.emplace_back(command.name);
  if (std::ranges::find(names, word) != names.end()) return;
  if (word.starts_with('-')) {
    reject(program, fmt::format("found {}, expected a command first", word));
  }
  const auto meant = closest(word, names);
  throw UsageError(fmt::format("unknown command `{}`", word),
                   meant ? fmt::format("did you mean `{}`?", *meant)
                         : fmt::format("use {}", list_in_words(names)));
}

/// The index of the command that the user gave, in all_commands().
std::size_t given_command(const CLI::App& program) {
  const std::string& name = program.get_subcommands().front()->get_name();
  const auto command =
      std::ranges::find_if(all_commands(), [&](const Command& each) { return each.name == name; });
  return static_cast<std::size_t>(command - all_commands().begin());
}

/// Rejects an argument that the command does not take.
[[noreturn]] void reject_extra(const CLI::App& program) {
  std::vector<std::string> extra = program.remaining(true);
  std::erase(extra, "--");
  if (extra.empty()) reject(program, "found `--`, expected nothing more");
  const std::string& argument = extra.front();
  if (argument.starts_with('-')) {
    std::vector<std::string> options;
    for (const CLI::Option* option : program.get_subcommands().front()->get_options()) {
      for (const std::string& name : option->get_lnames()) options.push_back("--" + name);
    }
    reject(program, fmt::format("there is no option {}", argument), closest(argument, options));
  }
  const std::string mistake = fmt::format("found `{}`, expected nothing more", argument);
  if (!all_commands()[given_command(program)].answers_lines) reject(program, mistake);
  std::error_code ignored;
  throw UsageError(mistake,
                   std::filesystem::exists(argument, ignored)
                       ? fmt::format("to read a file, write < {}", format_argument(argument))
                       : "give it the lines as standard input, such as `< FILE`");
}

/// Describes a wrong number of values of an option. CLI11 only has it as a text, such as
/// "--tokens: At Most 1 required but received 2".
std::string count_mistake(const CLI::ArgumentMismatch& mismatch) {
  const std::string text = mismatch.what();
  std::string name = text.substr(0, text.find_first_of(": "));
  if (!name.starts_with('-')) name.insert(0, "--");  // of a flag
  if (text.ends_with("missing")) return name + ": found no value, expected one";
  if (text.ends_with("flag override")) return name + ": found a value, expected none";
  if (text.find("At Most 1 ") == text.npos) return text;
  return fmt::format("{}: found {} values, expected one", name, text.substr(text.rfind(' ') + 1));
}

/// Parses the arguments and assigns the values.
///
/// returns  the index of the given command in all_commands(); nullopt if --help or --version was
///          given and has been printed
/// throws   UsageError; OutputError if help cannot be printed.
std::optional<std::size_t> parse(CLI::App& program, int argc, char** argv) {
  if (argc < 2) reject(program, "a command is required");
  require_command(program, argv[1]);
  try {
    program.parse(argc, argv);
  } catch (const CLI::Success& help_or_version) {
    std::ostringstream text;
    program.exit(help_or_version, text, text);
    end_on_broken_pipe();
    fmt::print("{}", text.str());
    flush_standard_output();
    return std::nullopt;
  } catch (const CLI::ExtrasError&) {
    reject_extra(program);
  } catch (const CLI::ArgumentMismatch& error) {
    reject(program, count_mistake(error));
  } catch (const CLI::ParseError& error) {
    const std::string mistake = error.what();  // with the hint of a check, if it has one
    const std::size_t end = mistake.find('\n');
    if (end == mistake.npos) reject(program, mistake);
    throw UsageError(mistake.substr(0, end), mistake.substr(end + 1));
  }
  return given_command(program);
}

// ---- Errors.

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

/// Reports the exception that is being handled, and returns its exit code.
///
/// memory_hint  hint for std::bad_alloc
int report_error(const char* memory_hint) try { throw; } catch (const UserError& error) {
  return fail(exit_code(error), error.what(), error.hint());
} catch (const std::exception& error) {
  const auto* const system_error = dynamic_cast<const std::system_error*>(&error);
  if (system_error != nullptr && std::ferror(stdout) != 0) {  // thrown by fmt::print
    const OutputError output = standard_output_error(system_error->code().value());
    return fail(exit_code(output), output.what(), output.hint());
  }
  if (to_exit_code(std::current_exception()) != ExitCode::memory) return fail_by_bug(error.what());
  std::string detail;
  if (dynamic_cast<const kernels::OutOfMemory*>(&error) != nullptr) {
    detail = fmt::format(": {}", error.what());
  } else if (system_error != nullptr) {
    detail = " for a thread, or permits no more threads (ulimit -u)";
  }
  return fail(ExitCode::memory, "the system has no more memory" + detail, memory_hint);
} catch (...) {
  return fail_by_bug("an object was thrown that is not a std::exception");
}

// ---- The program.

/// Makes the custom models of a program, which exist until it ends, and registers them and its
/// tasks.
///
/// throws  CustomModelError.
void register_custom(const ProgramOptions& options) {
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

}  // namespace

int run_program(int argc, char** argv) { return run_program(argc, argv, {}); }

int run_program(int argc, char** argv, const ProgramOptions& options) {
  prepare_standard_streams();
  set_program_name(chosen_name(options, argc, argv));
  const char* memory_hint = general_memory_hint;
  try {
    register_custom(options);
    CLI::App program("Trains Transformers on the CPU, from config files.", program_name());
    program.set_version_flag("--version", version_line());
    const std::vector<Action> actions = add_commands(program);
    program.footer(program_footer());                           // commands inherit an earlier one
    if (argc > 1 && argv[1] == std::string_view("complete")) {  // hidden, for shells
      fmt::print("{}", complete(program, {argv + 2, argv + argc}));
      return static_cast<int>(ExitCode::done);
    }
    const std::optional<std::size_t> given = parse(program, argc, argv);
    if (!given) return static_cast<int>(ExitCode::done);
    const Command& command = all_commands()[*given];
    memory_hint = command.memory_hint;
    if (!command.output_is_the_result) return actions[*given]();
    end_on_broken_pipe();
    const int code = actions[*given]();
    flush_standard_output();
    return code;
  } catch (...) {
    return report_error(memory_hint);
  }
}

}  // namespace tapestry
