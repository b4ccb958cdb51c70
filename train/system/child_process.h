// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

/// Processes that run this program.
namespace tapestry {

/// Starts this program with these arguments and without input and output, except standard error,
/// which is written to the file `errors`. Uses a separate process group, so that Ctrl-C reaches
/// only the calling process.
///
/// returns  the process id
/// throws   std::system_error
pid_t start_this_program(std::vector<std::string> arguments, const std::filesystem::path& errors);

/// The exit code of a process, 128 + n after signal n; nullopt while it is running.
std::optional<int> exit_code_of(pid_t process);

/// Requests the end of a process, which then saves its run.
void stop_process(pid_t process);

/// Waits until a process has ended.
void await_end(pid_t process);

}  // namespace tapestry
