#pragma once

#include <string>
#include <string_view>

namespace tapestry {

/// Escapes an untrusted text, such as a file name, for a message on a terminal: control characters
/// and bytes that are not UTF-8 are written as \n, \t, \r or \x1B; all other characters are
/// unchanged.
std::string escaped(std::string_view text);

/// The first 60 characters of a text, escaped, followed by "..." if it is longer: for file contents
/// in messages.
std::string excerpt(std::string_view text);

}  // namespace tapestry
