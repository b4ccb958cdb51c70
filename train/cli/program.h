// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "train/tasks/custom_model.h"

namespace tapestry {

/// Models and tasks that an embedding program registers with the command-line program.
struct ProgramOptions {
  /// The name of the program in help, messages and shell completion; empty: the last part of the
  /// path argv[0].
  std::string name{};
  std::vector<CustomModelOptions> models{};  ///< custom models, see CustomModel
  std::vector<const Task*> tasks{};  ///< custom tasks, which must exist until the program ends
};

/// The command-line program: parses the arguments, runs a command, and maps exceptions to an exit
/// code and a message on standard error, `NAME: error: ...` and `hint: ...`. Without arguments it
/// prints the list of commands on standard error.
///
///     int main(int argc, char** argv) {
///       return tapestry::run_program(argc, argv, {.models = {{.kind = "mlp", ...}}});
///     }
///
/// argc, argv  as of main()
/// options     invalid options give exit code 1
/// returns     the exit code, see ExitCode; `tapestry --help` lists them.
int run_program(int argc, char** argv, const ProgramOptions& options = {});

}  // namespace tapestry
