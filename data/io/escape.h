#pragma once

#include <string>
#include <string_view>

namespace tapestry {

/// A text of unknown origin, such as the name of a file, made safe for a message on a terminal:
/// control characters and bytes that are not UTF-8 are written as \n, \t, \r or \x1B, all other
/// characters unchanged.
std::string escaped(std::string_view text);

/// The first 60 characters of a text, escaped, followed by "..." if there are more: for contents of
/// files, which may be long.
std::string excerpt(std::string_view text);

}  // namespace tapestry
