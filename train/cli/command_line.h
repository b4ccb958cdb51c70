#pragma once

#include <functional>
#include <optional>
#include <string>

namespace tapestry {

/// A command that the user gave, with its arguments.
struct GivenCommand {
  std::string memory_hint;   ///< what to do if it has not enough memory
  std::function<int()> run;  ///< its exit code; throws what the commands throw
};

/// Takes the arguments of the program apart. Nothing if they ask for help or the version, which is
/// then printed.
///
/// throws  UsageError; OutputError if help cannot be printed.
std::optional<GivenCommand> parse_command_line(int argc, char** argv);

}  // namespace tapestry
