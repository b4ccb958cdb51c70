// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace tapestry {

/// Sizes of the axes of an array, outermost first. Empty for a scalar; an axis may be 0.
using ArrayShape = std::vector<std::uint64_t>;

/// Writes a shape as text: "(3, 4)", or "()" for a scalar.
inline std::string to_string(const ArrayShape& shape) {
  return fmt::format("({})", fmt::join(shape, ", "));
}

/// Bytes of an array; nullopt if the number does not fit in 64 bits.
inline std::optional<std::uint64_t> byte_count(const ArrayShape& shape,
                                               std::uint64_t element_size) {
  if (std::ranges::find(shape, 0U) != shape.end()) return 0;
  std::uint64_t count = element_size;
  for (const std::uint64_t axis : shape) {
    if (count > std::numeric_limits<std::uint64_t>::max() / axis) return std::nullopt;
    count *= axis;
  }
  return count;
}

}  // namespace tapestry
