#pragma once

namespace tapestry {

/// The command-line program: parses the arguments, runs a command, and maps exceptions to an exit
/// code and a message on standard error, `tapestry: error: ...` and `hint: ...`.
int run_program(int argc, char** argv);

}  // namespace tapestry
