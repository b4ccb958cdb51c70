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
#include "train/cli/command.h"
#include "train/cli/command_line.h"
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

/// Runs the program and returns the exit code of what it throws.
///
/// memory_hint  what to do if there is not enough memory, by then
int guarded(const auto& program, const std::string& memory_hint) {
  const auto out_of_memory = [&](const std::string& detail) {
    return fail(ExitCode::memory, "the system has no more memory" + detail, memory_hint);
  };
  try {
    return program();
  } catch (const UserError& error) {
    return fail(error.exit_code(), error.what(), error.hint());
  } catch (const kernels::OutOfMemory& error) {
    return out_of_memory(fmt::format(": {}", error.what()));
  } catch (const std::bad_alloc&) {
    return out_of_memory("");
  } catch (const std::length_error&) {  // of a container: more than any memory could hold
    return out_of_memory("");
  } catch (const std::exception& error) {
    return fail(ExitCode::bug, fmt::format("{} (this is a bug of tapestry)", error.what()),
                "please report it with the command line and the config");
  }
}

}  // namespace

int run_program(int argc, char** argv) {
  prepare_standard_streams();
  std::string memory_hint = general_memory_hint;
  const auto program = [&] {
    const auto given = parse_command_line(argc, argv);
    if (!given) return static_cast<int>(ExitCode::done);
    memory_hint = given->memory_hint;
    return given->run();
  };
  return guarded(program, memory_hint);
}

}  // namespace tapestry
