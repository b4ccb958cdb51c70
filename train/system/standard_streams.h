// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "data/io/error.h"

namespace tapestry {

/// Prepares the standard streams. Call it at the start of a program, before opening any file.
///
///   - Reopens each closed standard stream in such a way that reads and writes still fail.
///     Otherwise the next opened file, such as a checkpoint, would get its descriptor and receive
///     everything that is printed.
///   - Ignores SIGPIPE and SIGXFSZ, so that a closed pipe or a file size limit makes writes fail
///     instead of ending the process.
void prepare_standard_streams();

/// Makes SIGPIPE end the process silently from now on, as is usual for Unix tools when the reader
/// of their output exits. SIGPIPE stays ignored if it was ignored when the program was started. For
/// commands that print their result.
void end_on_broken_pipe();

/// Flushes standard output and checks that everything printed so far has been written.
///
/// error_before  errno of an earlier failed write, or 0
/// throws        OutputError if any output could not be written.
void flush_standard_output(int error_before = 0);

/// The error for a failed write to standard output.
///
/// error  errno of the failed write; 0 if unknown
OutputError standard_output_error(int error);

/// Prints a warning on standard error, for commands that print their result on standard output.
void warn(const std::string& warning);

/// Prints a line on standard error like warn(), without the word "warning".
void inform(const std::string& message);

}  // namespace tapestry
