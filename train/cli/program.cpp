// SPDX-License-Identifier: BSD-3-Clause
#include "train/cli/program.h"

#include <fmt/format.h>

#include <cstdio>
#include <deque>
#include <exception>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "autograd/kernels/memory.h"
#include "data/io/error.h"
#include "data/io/utf8.h"
#include "train/base/error.h"
#include "train/base/program.h"
#include "train/cli/command.h"
#include "train/config/domain.h"
#include "train/system/interruptions.h"
#include "train/system/standard_streams.h"
#include "train/tasks/custom_model.h"

namespace tapestry {
namespace {

std::string program_footer() {
  std::string text = fmt::format("See `{} help COMMAND`.\n\nExit codes:\n", program_name());
  for (const auto& [code, meaning] : exit_code_meanings) {
    text += fmt::format("  {:<9} {}\n", static_cast<int>(code), meaning);
  }
  return text + fmt::format("  {:<9} stopped by signal n, after saving",
                            fmt::format("{} + n", signal_exit_base));
}

/// The output of --version: "tapestry 1.0", or "NAME, with tapestry 1.0" for an embedding program.
std::string version_line() {
  const std::string library = fmt::format("tapestry {}", program_version);
  if (program_name() == "tapestry") return library;
  return fmt::format("{}, with {}", program_name(), library);
}

// ---- Errors.

/// Prints an error, and returns its exit code.
int print_error(ExitCode code, const std::string& message, const std::string& hint = "") {
  std::string text = fmt::format("{}: error: {}\n", program_name(), escaped_lines(message));
  if (!hint.empty()) text += fmt::format("hint: {}\n", escaped_lines(hint));
  std::fputs(text.c_str(), stderr);
  return static_cast<int>(code);
}

int report_user_error(const UserError& error) {
  return print_error(exit_code(error), error.what(), error.hint());
}

int report_lack_of_memory(const std::string& detail, const char* memory_hint) {
  return print_error(ExitCode::memory, "the system has no more memory" + detail, memory_hint);
}

/// Reports an internal error.
int report_bug(const std::string& error) {
  const std::vector<std::string> custom = custom_kinds();
  if (custom.empty()) {
    return print_error(ExitCode::failure, fmt::format("{} (this is a bug in tapestry)", error),
                       "please report it with the command line and the config");
  }
  // The error may come from custom code that the program calls, such as the gradient of an
  // operation or the reader of a task's data.
  return print_error(
      ExitCode::failure,
      fmt::format("{} (this is a bug in the code of the custom model {}, or in tapestry)", error,
                  list_in_words(custom)),
      "find the code that throws, such as the reader of the model's data or the gradient of an "
      "operation");
}

/// Reports an exception, and returns its exit code.
///
/// memory_hint  hint for std::bad_alloc
int report_error(const std::exception_ptr& exception, const char* memory_hint) {
  const bool lacks_memory = to_exit_code(exception) == ExitCode::memory;
  try {
    std::rethrow_exception(exception);
  } catch (const UserError& error) {
    return report_user_error(error);
  } catch (const kernels::OutOfMemory& error) {
    return report_lack_of_memory(fmt::format(": {}", error.what()), memory_hint);
  } catch (const std::system_error& error) {  // from fmt::print or std::thread
    if (std::ferror(stdout) != 0) {
      return report_user_error(standard_output_error(error.code().value()));
    }
    if (!lacks_memory) return report_bug(error.what());
    return report_lack_of_memory(" for a thread, or permits no more threads (ulimit -u)",
                                 memory_hint);
  } catch (const std::exception& error) {
    return lacks_memory ? report_lack_of_memory("", memory_hint) : report_bug(error.what());
  } catch (...) {
    return report_bug("an object was thrown that is not a std::exception");
  }
}

// ---- The program.

/// Creates and registers the custom models of a program, and registers its tasks. The models exist
/// until the process ends.
///
/// throws  CustomModelError.
void register_custom(const ProgramOptions& options) {
  static std::deque<CustomModel> models;
  for (const CustomModelOptions& model : options.models) register_task(models.emplace_back(model));
  for (const Task* task : options.tasks) register_task(*task);
}

/// The name in the options, or the last part of the path of the program.
std::string chosen_name(const ProgramOptions& options, int argc, char** argv) {
  if (!options.name.empty()) return options.name;
  const std::string name = argc > 0 ? std::filesystem::path(argv[0]).filename().string() : "";
  return name.empty() ? "tapestry" : name;
}

}  // namespace

int run_program(int argc, char** argv, const ProgramOptions& options) {
  prepare_standard_streams();
  handle_signals_of_program();
  set_program_name(chosen_name(options, argc, argv));
  const char* memory_hint = general_memory_hint;
  try {
    register_custom(options);
    CLI::App program("Trains Transformers on the CPU, from config files.", program_name());
    program.set_version_flag("--version", version_line());
    const std::vector<AddedCommand> commands = add_commands(program);
    program.footer(program_footer());  // after add_commands(): commands would inherit it
    if (argc < 2) {
      std::fputs(program.help().c_str(), stderr);
      return static_cast<int>(ExitCode::usage);
    }
    if (argv[1] == std::string_view("complete")) {  // hidden, for shells
      fmt::print("{}", complete(program, {argv + 2, argv + argc}));
      return static_cast<int>(ExitCode::done);
    }
    const AddedCommand* const given = parse_command_line(program, commands, argc, argv);
    if (given == nullptr) return static_cast<int>(ExitCode::done);
    memory_hint = given->command.memory_hint;
    if (!given->command.output_is_the_result) return given->run();
    end_on_broken_pipe();
    const int code = given->run();
    flush_standard_output();
    return code;
  } catch (...) {
    return report_error(std::current_exception(), memory_hint);
  }
}

}  // namespace tapestry
