#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace tapestry {

/// Reads what comes next from a descriptor, at most as much as fits; 0 bytes are its end.
///
/// throws  DataError with this hint, naming the file by `name`, if it cannot be read.
std::size_t read_some(int descriptor, std::span<std::byte> bytes, const std::string& name,
                      const std::string& hint);

}  // namespace tapestry
