#include "data/io/array_shape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

namespace tapestry {

std::string to_string(const ArrayShape& shape) {
  return fmt::format("({})", fmt::join(shape, ", "));
}

std::optional<std::uint64_t> byte_count(const ArrayShape& shape, std::uint64_t element_size) {
  if (std::ranges::find(shape, 0U) != shape.end()) return 0;
  std::uint64_t count = element_size;
  for (const std::uint64_t axis : shape) {
    if (count > std::numeric_limits<std::uint64_t>::max() / axis) return std::nullopt;
    count *= axis;
  }
  return count;
}

}  // namespace tapestry
