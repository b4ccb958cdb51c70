#pragma once

namespace tapestry {

/// The command-line program: parses the arguments, runs a command, and maps exceptions to an exit
/// code and a message on standard error, `tapestry: error: ...` and `hint: ...`.
///
/// argc, argv  as of main()
/// returns     the exit code, see ExitCode; the whole list is in train/cli/README.md.
int run_program(int argc, char** argv);

}  // namespace tapestry
