#pragma once

#include <exception>

#include "data/io/error.h"

namespace tapestry {

/// The exit code of the program for an error that ends it: of a UserError its own, `memory` for
/// std::bad_alloc and std::length_error, which containers throw for a size above max_size(), and
/// `bug` for anything else.
ExitCode exit_code_of(const std::exception_ptr& error);

}  // namespace tapestry
