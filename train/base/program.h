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

/// The network name of this machine; "unknown" if it cannot be determined.
std::string host_name();

/// Sets program_name(). Call it at the start of a program, before starting threads.
void set_program_name(std::string name);

/// The exit code after an error that ends the program: exit_code() for a UserError, `memory` if the
/// program ran out of memory, `failure` for all other errors. These exceptions mean that the
/// program ran out of memory:
///
/// - std::bad_alloc
/// - std::length_error, which containers throw for a size above max_size()
/// - std::system_error with resource_unavailable_try_again, which std::thread throws if memory for
///   a thread cannot be allocated or the limit on threads is reached
ExitCode to_exit_code(const std::exception_ptr& error);

}  // namespace tapestry
