#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace tapestry {

/// The lines of a UTF-8 text file, without their line ends. "\n" ends a line and so does "\r\n";
/// the last line may lack it. A byte order mark at the front is skipped.
///
/// throws  DataError, naming the file and where there is one the line, if the file is missing,
///         unreadable, not a regular file (a pipe is refused without opening it), empty, or holds
///         a NUL byte or a byte that is not UTF-8.
std::vector<std::string> read_text_lines(const std::filesystem::path& path);

}  // namespace tapestry
