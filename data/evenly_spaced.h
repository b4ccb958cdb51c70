#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace tapestry {

/// The indices of `count` evenly spaced examples of `size`, beginning with the first; all if there
/// are fewer.
inline std::vector<std::size_t> evenly_spaced(std::size_t size, std::size_t count) {
  std::vector<std::size_t> indices(std::min(count, size));
  for (std::size_t i = 0; i < indices.size(); ++i) indices[i] = i * size / indices.size();
  return indices;
}

}  // namespace tapestry
