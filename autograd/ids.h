// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <span>
#include <string>
#include <vector>

#include "autograd/shape.h"

namespace tapestry {

/// Token ids, classes or other whole numbers: a row-major array of int32 of any shape. Copies are
/// independent. `autograd/xtensor.h` converts from and to xtensor expressions.
class Ids {
 public:
  /// Empty ids, of shape (0).
  Ids() = default;
  /// Ids that are all `value`.
  explicit Ids(const Shape& shape, std::int32_t value);
  /// Ids with one axis, of shape (values.size()).
  explicit Ids(std::vector<std::int32_t> values);
  /// The values in row-major order. Throws ShapeError if their number does not match the shape.
  Ids(const Shape& shape, std::vector<std::int32_t> values);
  /// Rows of equal length: Ids{{1, 2, 3}, {4, 5, 6}} has shape (2, 3). Throws ShapeError if lengths
  /// differ.
  Ids(std::initializer_list<std::initializer_list<std::int32_t>> rows);
  /// Ids with one axis: Ids{4, 1, 1} has shape (3). It is a template so that Ids{{7}} is a row and
  /// not the id 7.
  template <std::same_as<std::int32_t> T>
  Ids(std::initializer_list<T> values) : Ids(std::vector<std::int32_t>(values)) {}
  /// Zeros of a shape: Ids::zeros({2, 3}) is Ids{{0, 0, 0}, {0, 0, 0}}. Ids({2, 3}) has the values
  /// 2 and 3.
  static Ids zeros(const Shape& shape) { return Ids(shape, 0); }
  /// The ids 0, 1, ..., count - 1, such as positions, of shape (count). Throws ValueError if
  /// count > 2^31.
  static Ids arange(std::size_t count);
  /// Ids with one axis: Ids::from({4, 1, 1}) has shape (3).
  static Ids from(std::vector<std::int32_t> ids);
  /// Rows of any lengths, such as sentences: shorter rows are filled up with `padding_id`:
  /// Ids::padded({{1, 2, 3}, {4}}, 0) is Ids{{1, 2, 3}, {4, 0, 0}}. The shape is (number of rows,
  /// longest length).
  static Ids padded(const std::vector<std::vector<std::int32_t>>& rows, std::int32_t padding_id);

  /// The extents of the axes; (0) without ids.
  const Shape& shape() const { return shape_; }
  /// Number of ids.
  std::size_t size() const { return values_.size(); }
  /// The ids in row-major order.
  std::int32_t* data() { return values_.data(); }
  const std::int32_t* data() const { return values_.data(); }  ///< \overload
  /// The first id in row-major order.
  auto begin() { return values_.begin(); }
  auto begin() const { return values_.begin(); }  ///< \overload
  /// Past the last id.
  auto end() { return values_.end(); }
  auto end() const { return values_.end(); }  ///< \overload

  /// The ids in row-major order.
  std::vector<std::int32_t> to_vector() const { return values_; }

  /// The id at a position in row-major order. The position must be less than size(); this is not
  /// checked.
  std::int32_t& operator[](std::size_t position) { return values_[position]; }
  std::int32_t operator[](std::size_t position) const { return values_[position]; }  ///< \overload
  /// The id at a row and a column, if there are two axes. The indices are not checked.
  std::int32_t& operator()(std::size_t row, std::size_t column) {
    return values_[row * shape_[1] + column];
  }
  /// \overload
  std::int32_t operator()(std::size_t row, std::size_t column) const {
    return values_[row * shape_[1] + column];
  }

  /// The parts at the given indices of the first axis, such as the labels of a batch: for ids of
  /// shape (n, t), ids[Ids::from({4, 1})] has rows 4 and 1. As for a Tensor, the axes of `index`
  /// replace the first axis. Throws ValueError if an index does not exist, ShapeError if there is
  /// no axis or the result would have more than the maximum rank.
  Ids operator[](const Ids& index) const;

  /// The indices of a position in row-major order, for messages: "(1, 2)".
  std::string place(std::size_t position) const;

  friend bool operator==(const Ids&, const Ids&) = default;

 private:
  Shape shape_ = Shape{0};
  std::vector<std::int32_t> values_;
};

/// The part [begin, end) of ids along one axis: slice(ids, 1, 0, -1) has all columns except the
/// last. Arguments, shapes and errors are the same as for `slice` of a Tensor (ops/shape_ops.h).
Ids slice(const Ids& ids, std::ptrdiff_t axis, std::ptrdiff_t begin, std::ptrdiff_t end);
/// The part of ids at one index of an axis, without that axis: select(ids, 0, 2) is row 2.
/// Arguments, shapes and errors are the same as for `select` of a Tensor (ops/shape_ops.h).
Ids select(const Ids& ids, std::ptrdiff_t axis, std::ptrdiff_t index);
/// Ids joined along an existing axis: concat({prompt, next}, 1) for prompt (n, t) and next (n, 1)
/// has shape (n, t + 1). Arguments, shapes and errors are the same as for `concat` of tensors
/// (ops/shape_ops.h).
Ids concat(std::span<const Ids> parts, std::ptrdiff_t axis);
/// \overload
inline Ids concat(std::initializer_list<Ids> parts, std::ptrdiff_t axis) {
  return concat(std::span(parts.begin(), parts.size()), axis);
}
/// Ids of equal shapes, joined along a new axis: stack({a, b}, 0) for a and b of shape (t) has
/// shape (2, t). Arguments, shapes and errors are the same as for `stack` of tensors
/// (ops/shape_ops.h).
Ids stack(std::span<const Ids> parts, std::ptrdiff_t axis);
/// \overload
inline Ids stack(std::initializer_list<Ids> parts, std::ptrdiff_t axis) {
  return stack(std::span(parts.begin(), parts.size()), axis);
}

/// The ids row by row as in NumPy, then their shape, like to_string(Tensor) (tensor.h):
///
///     [[4, 7],
///      [1, 0]]  (2, 2) ids
std::string to_string(const Ids& ids);
/// Writes to_string(ids).
std::ostream& operator<<(std::ostream& out, const Ids& ids);

}  // namespace tapestry
