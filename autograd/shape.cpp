// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/shape.h"

#include <fmt/format.h>

#include <algorithm>

#include "autograd/error.h"

namespace tapestry {

Shape::Shape(std::span<const std::size_t> extents) : rank_(extents.size()) {
  if (rank_ > max_rank) {
    throw ShapeError(
        fmt::format("shape: {} axes given, at most {} are supported", rank_, max_rank));
  }
  std::copy(extents.begin(), extents.end(), extents_.begin());
}

std::size_t Shape::size() const { return product(0, rank_); }

void Shape::reject_axis(const std::string& axis) const {
  throw ShapeError(fmt::format("shape: axis {} of {} does not exist, expected {} <= axis < {}",
                               axis, to_string(*this), -static_cast<std::ptrdiff_t>(rank_), rank_));
}

std::size_t Shape::product(std::size_t first, std::size_t last) const {
  std::size_t result = 1;
  for (std::size_t axis = first; axis < last; ++axis) result *= extents_[axis];
  return result;
}

Shape Shape::with_last(std::size_t extent) const {
  Shape result = *this;
  result[-1] = extent;
  return result;
}

Shape Shape::inserted(std::size_t axis, std::size_t extent) const {
  if (rank_ == max_rank) {
    throw ShapeError(fmt::format("shape: {} has no room for another axis (at most {})",
                                 to_string(*this), max_rank));
  }
  Shape result = *this;
  ++result.rank_;
  std::copy_backward(begin() + axis, end(), result.extents_.data() + result.rank_);
  result[axis] = extent;
  return result;
}

Shape Shape::erased(std::size_t axis) const {
  Shape result = *this;
  std::copy(begin() + axis + 1, end(), result.extents_.data() + axis);
  result.extents_[--result.rank_] = 0;
  return result;
}

bool Shape::operator==(const Shape& other) const {
  return std::equal(begin(), end(), other.begin(), other.end());
}

std::string to_string(const Shape& shape) {
  return fmt::format("({})", fmt::join(shape.begin(), shape.end(), ", "));
}

Shape broadcast_shape(const char* operation, const Shape& a, const Shape& b) {
  const Shape& longer = a.rank() >= b.rank() ? a : b;
  const Shape& shorter = a.rank() >= b.rank() ? b : a;
  const std::size_t offset = longer.rank() - shorter.rank();
  Shape result = longer;
  for (std::size_t axis = offset; axis < longer.rank(); ++axis) {
    const std::size_t m = longer[axis];
    const std::size_t n = shorter[axis - offset];
    if (m != n && m != 1 && n != 1) {
      throw ShapeError(
          fmt::format("{}: shapes {} and {} do not broadcast: axis {} from the end has {} and {}, "
                      "expected equal extents or 1",
                      operation, to_string(a), to_string(b), longer.rank() - axis,
                      a.rank() >= b.rank() ? m : n, a.rank() >= b.rank() ? n : m));
    }
    result[axis] = m == 1 ? n : m;
  }
  return result;
}

std::string place_in(const Shape& shape, std::size_t position) {
  Shape indices = shape;
  for (std::size_t axis = shape.rank(); axis-- > 0;) {
    indices[axis] = position % shape[axis];
    position /= shape[axis];
  }
  return fmt::format("[{}]", fmt::join(indices.begin(), indices.end(), ", "));
}

std::size_t resolve_axis(const char* operation, std::ptrdiff_t axis, std::size_t rank) {
  const auto signed_rank = static_cast<std::ptrdiff_t>(rank);
  const std::ptrdiff_t resolved = axis < 0 ? axis + signed_rank : axis;
  if (resolved < 0 || resolved >= signed_rank) {
    throw ValueError(fmt::format("{}: axis {} does not exist, expected {} <= axis < {}", operation,
                                 axis, -signed_rank, signed_rank));
  }
  return static_cast<std::size_t>(resolved);
}

}  // namespace tapestry
