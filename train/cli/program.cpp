#include "train/cli/program.h"

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>

#include "autograd/kernels/memory.h"
#include "data/io/error.h"
#include "data/io/escape.h"
#include "train/cli/command_line.h"
#include "train/config/error.h"
#include "train/error.h"
#include "train/exit_code.h"
#include "train/platform/standard_streams.h"

namespace tapestry {
namespace {

/// A message without the control characters that its terminal would act on, but line feed and tab.
std::string harmless(std::string_view message) {
  std::string lines;
  while (true) {
    const std::size_t end = message.find_first_of("\n\t");
    lines += escaped(message.substr(0, end));
    if (end == std::string_view::npos) return lines;
    lines += message[end];
    message.remove_prefix(end + 1);
  }
}

/// The exit code tells of the failure even where nobody can read the message.
int fail(ExitCode code, const std::string& message, const std::string& hint = "") {
  std::string text = fmt::format("tapestry: error: {}\n", harmless(message));
  if (!hint.empty()) text += fmt::format("hint: {}\n", harmless(hint));
  std::fputs(text.c_str(), stderr);
  return static_cast<int>(code);
}

/// What to do when a command finds no memory.
std::string memory_hint(std::string_view command) {
  if (command == "train") {
    return "try a smaller train.batch_size with a larger train.accumulate, or a smaller model "
           "(model.d_model, model.num_encoder_layers, model.num_decoder_layers), or fewer data";
  }
  if (command == "attention") return "give it a shorter text or example";
  if (command == "translate" || command == "fill") {
    return "give it shorter lines, or more memory (see `ulimit -v`)";
  }
  if (command == "check" || command == "gradcheck") {
    return "try a smaller model, such as model.d_model=32, or give it more memory (see `ulimit "
           "-v`)";
  }
  return "end other programs or give it more memory (see `ulimit -v`)";
}

int out_of_memory(const std::string& detail, std::string_view command) {
  return fail(ExitCode::memory, "the system has no more memory" + detail, memory_hint(command));
}

/// Runs the program and names the exit code of what it throws. `command` is the name of the command
/// by then, or empty.
int guarded(const auto& program, const std::string& command) {
  try {
    return program();
  } catch (const UsageError& error) {
    return fail(ExitCode::usage, fmt::format("command line: {}", error.what()), error.hint());
  } catch (const ConfigError& error) {
    return fail(ExitCode::usage, error.what());
  } catch (const DataError& error) {
    return fail(ExitCode::data, error.what(), error.hint());
  } catch (const RunDirectoryInUse& error) {
    return fail(ExitCode::in_use, error.what(), error.hint());
  } catch (const CheckpointError& error) {
    return fail(ExitCode::checkpoint, error.what(), error.hint());
  } catch (const OutputError& error) {
    return fail(ExitCode::output, error.what(), error.hint());
  } catch (const NumericError& error) {
    return fail(ExitCode::numeric, error.what(), error.hint());
  } catch (const InputError& error) {
    return fail(ExitCode::data, error.what(), error.hint());
  } catch (const MemoryError& error) {
    return fail(ExitCode::memory, error.what(), error.hint());
  } catch (const kernels::OutOfMemory& error) {
    return out_of_memory(fmt::format(": {}", error.what()), command);
  } catch (const std::bad_alloc&) {
    return out_of_memory("", command);
  } catch (const std::length_error&) {  // of a container: more than any memory could hold
    return out_of_memory("", command);
  } catch (const std::exception& error) {
    return fail(ExitCode::bug, fmt::format("{} (this is a bug of tapestry)", error.what()),
                "please report it with the command line and the config");
  }
}

}  // namespace

int run_program(int argc, char** argv) {
  prepare_standard_streams();
  std::string command;
  const auto program = [&] {
    const auto given = parse_command_line(argc, argv);
    if (!given) return static_cast<int>(ExitCode::done);
    command = given->name;
    return given->run();
  };
  return guarded(program, command);
}

}  // namespace tapestry
