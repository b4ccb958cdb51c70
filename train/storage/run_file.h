#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace tapestry {

/// The largest text file of a run directory that is read as a whole, in bytes.
inline constexpr std::uint64_t largest_run_file = std::uint64_t{1} << 30;

/// The content of a text file of a run directory, such as metrics.csv; nullopt if there is none.
/// Never blocks, not even for a named pipe.
///
/// throws  FileError if it is not a regular file, larger than `largest_run_file`, or unreadable
std::optional<std::string> read_run_file(const std::filesystem::path& path);

/// At most the last `most` bytes of such a file of any size, such as a log; nullopt if there is
/// none.
///
/// throws  FileError if it is not a regular file, or unreadable
std::optional<std::string> read_end_of_run_file(const std::filesystem::path& path,
                                                std::size_t most);

}  // namespace tapestry
