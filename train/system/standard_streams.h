// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "data/io/error.h"

namespace tapestry {

/// Call this at the start of a program, before it opens any file:
///
///   - Opens each standard stream that the caller has closed, in a way that using it fails.
///     Otherwise the next opened file, such as a checkpoint, would get its descriptor and
///     everything that is printed.
///   - Ignores SIGPIPE and SIGXFSZ, so that a closed pipe or a file size limit makes writing fail
///     instead of ending the process.
void prepare_standard_streams();

/// Lets SIGPIPE end the process from now on, silently, as other Unix tools end when the reader of
/// their output is gone; unless the caller of the program had it ignore SIGPIPE. For commands whose
/// result is what they print.
void end_on_broken_pipe();

/// Flushes standard output and checks that everything printed so far has been written.
///
/// error_before  errno of an earlier failed write, or 0
/// throws        OutputError if any output could not be written.
void flush_standard_output(int error_before = 0);

/// The error that standard output could not be written.
///
/// error  errno of the failed write; 0: unknown
OutputError standard_output_error(int error);

/// Prints a warning on standard error, for commands whose standard output is their result.
void warn(const std::string& warning);

/// Prints a line that is not a warning on standard error, for the same commands.
void inform(const std::string& message);

}  // namespace tapestry
