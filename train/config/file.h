#pragma once

#include <cstddef>
#include <string>

namespace tapestry {

/// A config larger than this is refused before it is read.
inline constexpr std::size_t kLargestConfig = 1u << 20;  // bytes

/// The text of the config file `path`. Never waits: a pipe or a device is refused, not read.
///
/// throws  ConfigError if the file is missing, unreadable, not a regular file or too large.
std::string read_config_file(const std::string& path);

}  // namespace tapestry
