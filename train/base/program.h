// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <exception>
#include <string>

#include "train/base/error.h"

namespace tapestry {

/// The name of the program in messages, help and hints, "tapestry" by default.
const std::string& program_name();

/// The version of the program, such as "0.2.0".
extern const char* const program_version;

/// The network name of this machine; "unknown" if the system does not tell.
std::string host_name();

/// Sets program_name(). Call this at the start of a program, before it starts threads.
void set_program_name(std::string name);

/// The exit code of the program for an error that ends it: exit_code() of a UserError, `memory` for
/// a lack of memory, `failure` for all others. A lack of memory is
///
/// - std::bad_alloc
/// - std::length_error, which containers throw for a size above max_size()
/// - std::system_error with resource_unavailable_try_again, which std::thread throws if there is no
///   memory for a thread or the user may have no more threads
ExitCode to_exit_code(const std::exception_ptr& error);

}  // namespace tapestry
