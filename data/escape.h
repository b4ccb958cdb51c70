#pragma once

#include <string>
#include <string_view>

namespace tapestry {

/// A text of unknown origin, such as the name of a file, so that it can stand in a line of a
/// message and no terminal obeys it: control characters and bytes that are not UTF-8 as \n, \t, \r
/// or \x1B; ordinary text as it is.
std::string escaped(std::string_view text);

/// The same of the first 60 characters, followed by "..." if there are more: what a file holds may
/// be as long as the file.
std::string excerpt(std::string_view text);

}  // namespace tapestry
