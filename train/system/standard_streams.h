#pragma once

namespace tapestry {

/// For the start of a program, before it opens any file:
///
///   - A standard stream that was closed by the caller is opened as one that fails. Otherwise the
///     next file that is opened, such as a checkpoint, would get its number and everything that is
///     printed.
///   - A reader that goes away and a file that reaches its limit of size make writing fail, instead
///     of ending the process by SIGPIPE or SIGXFSZ.
void prepare_standard_streams();

}  // namespace tapestry
