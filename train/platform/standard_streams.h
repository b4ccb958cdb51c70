#pragma once

#include <string>

namespace tapestry {

/// For the start of a program, before it opens any file:
///
///   - A standard stream that was closed by the caller is opened as one that fails. Otherwise the
///     next file that is opened, such as a checkpoint, would get its number and everything that is
///     printed.
///   - A reader that goes away and a file that reaches its limit of size make writing fail, instead
///     of ending the process by SIGPIPE or SIGXFSZ.
void prepare_standard_streams();

/// Makes sure that everything printed so far has left the program.
///
/// error_before  errno of a write that has failed already, or 0
/// throws        OutputError if any of it could not be written.
void flush_standard_output(int error_before = 0);

/// Prints a line on standard error, for commands whose standard output is their result.
void warn(const std::string& warning);

}  // namespace tapestry
