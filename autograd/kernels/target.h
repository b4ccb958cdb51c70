#pragma once

#include <cstddef>

namespace tapestry::kernels {

/// Where a kernel puts its results: the first contribution to a gradient writes, later ones add, so
/// nothing has to be filled with zeros first.
template <class T>
struct Target {
  T* data = nullptr;
  bool add = false;

  explicit operator bool() const { return data != nullptr; }
  /// The same target further on.
  Target operator+(std::size_t offset) const { return {data + offset, add}; }
  void put(std::size_t i, T value) const { data[i] = add ? data[i] + value : value; }
};

}  // namespace tapestry::kernels
