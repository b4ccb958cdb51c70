#pragma once

#include <string>
#include <string_view>

namespace tapestry {

/// A text of unknown origin, such as the name of a file, so that it can stand in a line of a
/// message: control characters and bytes that are not UTF-8 as \n, \t, \r or \x1B; ordinary text as
/// it is.
std::string escaped(std::string_view text);

}  // namespace tapestry
