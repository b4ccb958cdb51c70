// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>

namespace tapestry::kernels {

/// The destination of a kernel's results. The first contribution to a gradient is written and later
/// contributions are added, so that no memory has to be filled with zeros first.
template <class T>
struct Target {
  T* data = nullptr;  ///< the first element; null if no result is wanted
  bool add = false;   ///< whether to add to the elements instead of writing them

  /// Whether a result is wanted.
  explicit operator bool() const { return data != nullptr; }
  /// This target from element `offset` on.
  Target operator+(std::size_t offset) const { return {data + offset, add}; }
  /// Writes `value` to element i or adds it.
  void put(std::size_t i, T value) const { data[i] = add ? data[i] + value : value; }
};

}  // namespace tapestry::kernels
