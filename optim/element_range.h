#pragma once

#include <cstddef>

namespace tapestry {

/// A range of the elements of a tensor, in row-major order.
struct ElementRange {
  std::size_t begin = 0;  ///< its first element
  std::size_t end = 0;    ///< the element behind its last one
  /// Number of elements.
  std::size_t size() const { return end - begin; }
};

}  // namespace tapestry
