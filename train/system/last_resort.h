#pragma once

namespace tapestry {

/// For the start of a program. Where so little memory is left that not even an exception can be
/// made, nothing can be thrown or caught: the program is terminated without an active exception.
/// From now on it then says that memory is lacking and ends with this exit code; so it does after a
/// bad_alloc that nobody catches.
void end_with_code_without_memory(int code);

}  // namespace tapestry
