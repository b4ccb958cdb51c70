// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <initializer_list>
#include <limits>
#include <span>
#include <vector>

#include "autograd/tensor.h"

namespace tapestry {

/// An extent for `reshape` that is computed from the other extents.
inline constexpr std::size_t inferred = std::numeric_limits<std::size_t>::max();

/// Values of x, in the same row-major order, with a different shape: `reshape(x, {8, inferred})`.
/// Shares x's memory.
///
/// shape    same number of elements as x; at most one extent may be `inferred`.
/// throws   ShapeError if the numbers of elements differ, if no extent can replace `inferred`, or
///          if more than one extent is `inferred`.
///
/// dL/dx = dL/dy with the shape of x; also shares memory.
Tensor reshape(const Tensor& x, const Shape& shape);

/// Joins the axes from `first` to `last`, inclusive: for x of shape (b, h, w), flatten(x, 1) has
/// shape (b, h * w) and flatten(x) has shape (b * h * w). Shares x's memory.
///
/// first, last  counted from the front, or from the back if negative.
/// returns      x's shape with one axis in place of the joined axes; (1) for a scalar.
/// throws       ValueError if an axis does not exist or last comes before first.
///
/// dL/dx = dL/dy with the shape of x.
Tensor flatten(const Tensor& x, std::ptrdiff_t first = 0, std::ptrdiff_t last = -1);

/// Removes an axis of extent 1. Shares x's memory.
///
/// axis     counted from the front, or from the back if negative.
/// throws   ValueError if the axis does not exist, ShapeError if its extent is not 1 (torch.squeeze
///          returns x instead).
///
/// dL/dx = dL/dy with the shape of x.
Tensor squeeze(const Tensor& x, std::ptrdiff_t axis);

/// Inserts an axis of extent 1. Shares x's memory.
///
/// axis     position of the new axis in the result, counted from the front, or from the back if
///          negative: unsqueeze(x, -1) appends an axis.
/// throws   ValueError if the axis does not exist, ShapeError if x has the maximum rank.
///
/// dL/dx = dL/dy with the shape of x.
Tensor unsqueeze(const Tensor& x, std::ptrdiff_t axis);

/// Reorders axes: axis k of y is axis axes[k] of x. Copies.
///
/// axes     each axis of x once, counted from the front, or from the back if negative.
/// throws   ShapeError if the number of axes differs from x; ValueError if an axis does not
///          exist or is given twice.
///
/// dL/dx = dL/dy with the axes in the original order.
Tensor permute(const Tensor& x, std::span<const std::ptrdiff_t> axes);
/// \overload
inline Tensor permute(const Tensor& x, std::initializer_list<std::ptrdiff_t> axes) {
  return permute(x, std::span(axes.begin(), axes.size()));
}

/// Swaps two axes of x, counted from the front, or from the back if negative. Copies.
///
/// throws   ValueError if an axis does not exist.
///
/// dL/dx = dL/dy with the axes swapped back.
Tensor transpose(const Tensor& x, std::ptrdiff_t axis_a, std::ptrdiff_t axis_b);

/// The part [begin, end) of x along one axis, such as x[:, -3:-1] in Python: slice(x, 1, -3, -1).
/// Copies.
///
/// axis        counted from the front, or from the back if negative.
/// begin, end  counted in the same way: -1 is the last index. An `end` equal to the extent of the
///             axis includes the last index.
/// returns     x's shape with an extent of end - begin at `axis`, which may be 0.
/// throws      ValueError unless the axis exists and, counted from the front, 0 <= begin <= end <=
///             its extent.
///
/// dL/dx = dL/dy inside the part and 0 outside.
Tensor slice(const Tensor& x, std::ptrdiff_t axis, std::ptrdiff_t begin, std::ptrdiff_t end);

/// The part of x at one index of an axis, without that axis: for x of shape (b, t, d),
/// select(x, 1, -1) is the last of the t vectors of each row, of shape (b, d). Copies.
///
/// axis, index  counted from the front, or from the back if negative.
/// throws       ValueError if the axis or the index does not exist.
///
/// dL/dx = dL/dy at the index and 0 elsewhere.
Tensor select(const Tensor& x, std::ptrdiff_t axis, std::ptrdiff_t index);

/// Divides x along an axis into parts of the given extents, like torch.split. Copies.
///
/// extents  extents of the parts; their sum must be the extent of the axis.
/// axis     counted from the front, or from the back if negative.
/// returns  the parts in order; concat(parts, axis) is x.
/// throws   ValueError if the axis does not exist, ShapeError if the sum differs.
///
/// dL/dx = the dL/dy of all parts, concatenated.
std::vector<Tensor> split(const Tensor& x, std::span<const std::size_t> extents,
                          std::ptrdiff_t axis = 0);
/// \overload
inline std::vector<Tensor> split(const Tensor& x, std::initializer_list<std::size_t> extents,
                                 std::ptrdiff_t axis = 0) {
  return split(x, std::span(extents.begin(), extents.size()), axis);
}

/// Divides x along an axis into `count` equal parts, such as queries, keys and values:
/// chunk(x, 3, -1). Copies.
///
/// returns  `count` parts in order.
/// throws   ValueError if the axis does not exist or count is 0.
///          ShapeError if the extent of the axis is not a multiple of count (torch.chunk makes the
///          last part smaller instead).
///
/// dL/dx = the dL/dy of all parts, concatenated.
std::vector<Tensor> chunk(const Tensor& x, std::size_t count, std::ptrdiff_t axis = 0);

/// Joins tensors end to end along an axis.
///
/// tensors  at least one; same element type, and same shape except along `axis`.
/// axis     counted from the front, or from the back if negative.
/// returns  their shape, with the sum of their extents at `axis`.
/// throws   ValueError if there are no tensors or the axis does not exist, ShapeError if the shapes
///          do not match, DTypeError if the element types differ.
///
/// The gradient of each tensor is its part of dL/dy.
Tensor concat(std::span<const Tensor> tensors, std::ptrdiff_t axis);
/// \overload
inline Tensor concat(std::initializer_list<Tensor> tensors, std::ptrdiff_t axis) {
  return concat(std::span(tensors.begin(), tensors.size()), axis);
}

/// Joins n tensors of the same shape along a new axis of extent n.
///
/// tensors  at least one; same shape and element type.
/// axis     position of the new axis in the result, counted from the front, or from the back if
///          negative.
/// returns  their shape with n inserted at `axis`; select(y, axis, k) is tensor k.
/// throws   ValueError if there are no tensors or the axis does not exist, ShapeError if the shapes
///          differ or already have the maximum rank, DTypeError if the element types differ.
///
/// The gradient of each tensor is its part of dL/dy.
Tensor stack(std::span<const Tensor> tensors, std::ptrdiff_t axis);
/// \overload
inline Tensor stack(std::initializer_list<Tensor> tensors, std::ptrdiff_t axis) {
  return stack(std::span(tensors.begin(), tensors.size()), axis);
}

}  // namespace tapestry
