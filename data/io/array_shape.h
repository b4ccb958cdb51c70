#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tapestry {

/// Sizes of the axes of an array, outermost first. Empty for a scalar; an axis may be 0.
using ArrayShape = std::vector<std::uint64_t>;

/// "(3, 4)", "()" for a scalar.
std::string to_string(const ArrayShape& shape);

/// Bytes of an array; nullopt if the number does not fit in 64 bits.
std::optional<std::uint64_t> byte_count(const ArrayShape& shape, std::uint64_t element_size);

}  // namespace tapestry
