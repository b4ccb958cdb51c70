#pragma once

namespace tapestry {

/// Makes sure that everything printed so far has left the program.
/// throws  OutputError if any of it could not be written.
void flush_standard_output();

}  // namespace tapestry
