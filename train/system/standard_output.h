#pragma once

namespace tapestry {

/// Makes sure that everything printed so far has left the program.
///
/// error_before  errno of a write that has failed already, or 0
/// throws        OutputError if any of it could not be written.
void flush_standard_output(int error_before = 0);

}  // namespace tapestry
