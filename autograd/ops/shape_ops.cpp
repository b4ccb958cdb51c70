// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/ops/shape_ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "autograd/error.h"
#include "autograd/kernels/copy.h"
#include "autograd/operation.h"
#include "autograd/ops/internal/axes.h"

namespace tapestry {
namespace {

struct Reshape {
  static constexpr const char* name = "reshape";
  static constexpr const char* formula = "y = x with a different shape";
  static constexpr const char* derivative = "dL/dx = dL/dy with the shape of x";
  Shape shape;

  Tensor forward(const Tensor& x) { return x.viewed_as(shape); }
  void backward(const Tensor& dy, Gradient dx) const { dx.add(dy.viewed_as(dx.shape())); }
};

/// A shape as text, such as "(4, ?)" for an extent that reshape infers.
std::string with_question_marks(const Shape& shape) {
  std::vector<std::string> extents;
  for (const std::size_t extent : shape) {
    extents.push_back(extent == inferred ? "?" : std::to_string(extent));
  }
  return fmt::format("({})", fmt::join(extents, ", "));
}

[[noreturn]] void reject_reshape(const Tensor& x, const Shape& shape, const std::string& expected) {
  throw ShapeError(fmt::format("{}: x has shape {}, {} elements, requested shape {}, expected {}",
                               Reshape::name, to_string(x.shape()), x.size(),
                               with_question_marks(shape), expected));
}

/// `shape` with an inferred extent replaced by its value for the size of x.
Shape with_inferred_extent(const Tensor& x, const Shape& shape) {
  const auto unknown = std::count(shape.begin(), shape.end(), inferred);
  if (unknown > 1) reject_reshape(x, shape, "at most one inferred extent");
  if (unknown == 0) {
    if (shape.size() != x.size()) reject_reshape(x, shape, "the same number of elements");
    return shape;
  }
  Shape result = shape;
  std::size_t& extent = *std::find(&result[0], &result[0] + result.rank(), inferred);
  extent = 1;
  const std::size_t others = result.size();
  if (others == 0 || x.size() % others != 0) {
    reject_reshape(x, shape, fmt::format("a multiple of {} elements", others));
  }
  extent = x.size() / others;
  return result;
}

/// Copies x, converted to the element type `dtype`.
struct To {
  static constexpr const char* name = "to";
  static constexpr const char* formula = "y = x converted to a different element type";
  static constexpr const char* derivative = "dL/dx = dL/dy converted to the element type of x";
  DType dtype;

  Tensor forward(const Tensor& x) {
    Tensor y = Tensor::empty(x.shape(), dtype);
    dispatch(x.dtype(), [&]<class From>() {
      dispatch(dtype, [&]<class Result>() {
        std::ranges::transform(x.values<From>(), y.mutable_values<Result>().begin(),
                               [](From value) { return static_cast<Result>(value); });
      });
    });
    return y;
  }
  void backward(const Tensor& dy, Gradient dx) const {
    dx.add(dy.dtype() == dx.dtype() ? dy : dy.to(dx.dtype()));
  }
};

}  // namespace

Tensor Tensor::to(DType dtype) const { return apply(To{dtype}, *this); }

Tensor reshape(const Tensor& x, const Shape& shape) {
  return apply(Reshape{with_inferred_extent(x, shape)}, x);
}

Tensor flatten(const Tensor& x, std::ptrdiff_t first, std::ptrdiff_t last) {
  if (x.rank() == 0) {
    resolve_axis("flatten", first, 1);
    resolve_axis("flatten", last, 1);
    return reshape(x, {1});
  }
  const std::size_t begin = resolve_axis("flatten", first, x.rank());
  const std::size_t end = resolve_axis("flatten", last, x.rank());
  if (end < begin) {
    throw ValueError(
        fmt::format("flatten: axes {} to {} of x, whose shape is {}, expected first <= last", begin,
                    end, to_string(x.shape())));
  }
  Shape shape = x.shape();
  shape[begin] = x.shape().product(begin, end + 1);
  for (std::size_t axis = end; axis > begin; --axis) shape = shape.erased(axis);
  return reshape(x, shape);
}

Tensor squeeze(const Tensor& x, std::ptrdiff_t axis) {
  const std::size_t along = resolve_axis("squeeze", axis, x.rank());
  if (x.shape()[along] != 1) {
    throw ShapeError(
        fmt::format("squeeze: axis {} of x, whose shape is {}, has extent {}, expected 1", along,
                    to_string(x.shape()), x.shape()[along]));
  }
  return reshape(x, x.shape().erased(along));
}

Tensor unsqueeze(const Tensor& x, std::ptrdiff_t axis) {
  return reshape(x, x.shape().inserted(resolve_axis("unsqueeze", axis, x.rank() + 1), 1));
}

namespace {

using Order = std::array<std::size_t, Shape::max_rank>;

/// Reorders the axes of x into `out`, which has the reordered shape.
template <class T>
void permute_values(const Tensor& x, const Order& order, kernels::Target<T> out) {
  kernels::permute({x.shape().begin(), x.shape().end()}, {order.data(), x.rank()},
                   x.values<T>().data(), out);
}

struct Permute {
  static constexpr const char* name = "permute";
  static constexpr const char* formula = "y = x with its axes in a different order";
  static constexpr const char* derivative = "dL/dx = dL/dy with the axes of x";
  Order order;

  Tensor forward(const Tensor& x) {
    Shape shape = x.shape();
    for (std::size_t k = 0; k < x.rank(); ++k) shape[k] = x.shape()[order[k]];
    Tensor y = Tensor::empty(shape, x.dtype());
    dispatch(x.dtype(), [&]<class T>() {
      permute_values(x, order, kernels::Target<T>{y.mutable_values<T>().data()});
    });
    return y;
  }

  void backward(const Tensor& dy, Gradient dx) const {
    Order inverse{};
    for (std::size_t k = 0; k < dy.rank(); ++k) inverse[order[k]] = k;
    dispatch(dy.dtype(), [&]<class T>() { permute_values(dy, inverse, dx.target<T>()); });
  }
};

}  // namespace

Tensor permute(const Tensor& x, std::span<const std::ptrdiff_t> axes) {
  const std::size_t rank = x.rank();
  if (resolve_axes(Permute::name, axes, rank).count() != rank) {
    throw ShapeError(fmt::format("{}: {} axes given, expected all {} axes of x, which has shape {}",
                                 Permute::name, axes.size(), rank, to_string(x.shape())));
  }
  Order order{};
  for (std::size_t k = 0; k < rank; ++k) order[k] = resolve_axis(Permute::name, axes[k], rank);
  return apply(Permute{order}, x);
}

Tensor transpose(const Tensor& x, std::ptrdiff_t axis_a, std::ptrdiff_t axis_b) {
  const std::size_t a = resolve_axis("transpose", axis_a, x.rank());
  const std::size_t b = resolve_axis("transpose", axis_b, x.rank());
  std::array<std::ptrdiff_t, Shape::max_rank> order{};
  std::iota(order.begin(), order.end(), std::ptrdiff_t{0});
  std::swap(order[a], order[b]);
  return permute(x, std::span(order).first(x.rank()));
}

namespace {

struct Slice {
  static constexpr const char* name = "slice";
  static constexpr const char* formula = "y = a range of indices of an axis of x";
  static constexpr const char* derivative = "dL/dx = dL/dy in the range, else 0";
  std::size_t axis, begin, end;

  Tensor forward(const Tensor& x) {
    Shape shape = x.shape();
    shape[axis] = end - begin;
    Tensor y = Tensor::empty(shape, x.dtype());
    const Rows part = slice_rows(x.shape());
    dispatch(x.dtype(), [&]<class T>() {
      kernels::copy_rows(part.rows, part.n, x.values<T>().data() + part.first, part.stride,
                         kernels::Target<T>{y.mutable_values<T>().data()}, part.n);
    });
    return y;
  }

  void backward(const Tensor& dy, Gradient dx) const {
    const Rows part = slice_rows(dx.shape());
    dispatch(dy.dtype(), [&]<class T>() {
      kernels::pad_rows(part.rows, part.n, dy.values<T>().data(), part.first, dx.target<T>(),
                        part.stride);
    });
  }

 private:
  /// x viewed as `rows` rows of `stride` elements; n elements from `first` on belong to the part.
  struct Rows {
    std::size_t rows, stride, first, n;
  };
  Rows slice_rows(const Shape& x) const {
    const std::size_t inner = x.product(axis + 1, x.rank());
    return {.rows = x.product(0, axis),
            .stride = x[axis] * inner,
            .first = begin * inner,
            .n = (end - begin) * inner};
  }
};

std::ptrdiff_t counted_from_front(std::ptrdiff_t index, std::ptrdiff_t extent) {
  return index < 0 ? index + extent : index;
}

}  // namespace

Tensor slice(const Tensor& x, std::ptrdiff_t axis, std::ptrdiff_t begin, std::ptrdiff_t end) {
  const std::size_t along = resolve_axis(Slice::name, axis, x.rank());
  const auto extent = static_cast<std::ptrdiff_t>(x.shape()[along]);
  const std::ptrdiff_t first = counted_from_front(begin, extent);
  const std::ptrdiff_t last = counted_from_front(end, extent);
  if (first < 0 || first > last || last > extent) {
    throw ValueError(fmt::format(
        "{}: [{}, {}) of axis {} of x, whose shape is {}, expected 0 <= begin <= end <= {}, "
        "counted from the back if negative",
        Slice::name, begin, end, along, to_string(x.shape()), extent));
  }
  return apply(Slice{along, static_cast<std::size_t>(first), static_cast<std::size_t>(last)}, x);
}

Tensor select(const Tensor& x, std::ptrdiff_t axis, std::ptrdiff_t index) {
  const std::size_t along = resolve_axis("select", axis, x.rank());
  const auto extent = static_cast<std::ptrdiff_t>(x.shape()[along]);
  if (index < -extent || index >= extent) {
    throw ValueError(fmt::format(
        "select: index {} of axis {} of x, whose shape is {}, expected {} <= index < {}", index,
        along, to_string(x.shape()), -extent, extent));
  }
  const std::ptrdiff_t begin = counted_from_front(index, extent);
  return reshape(slice(x, axis, begin, begin + 1), x.shape().erased(along));
}

Tensor Tensor::operator[](std::ptrdiff_t index) const { return select(*this, 0, index); }

std::vector<Tensor> split(const Tensor& x, std::span<const std::size_t> extents,
                          std::ptrdiff_t axis) {
  const std::size_t along = resolve_axis("split", axis, x.rank());
  if (std::accumulate(extents.begin(), extents.end(), std::size_t{0}) != x.shape()[along]) {
    throw ShapeError(
        fmt::format("split: extents ({}) along axis {} of x, whose shape is {}, "
                    "expected a sum of {}",
                    fmt::join(extents, ", "), along, to_string(x.shape()), x.shape()[along]));
  }
  std::vector<Tensor> parts;
  std::size_t begin = 0;
  for (const std::size_t extent : extents) {
    parts.push_back(apply(Slice{along, begin, begin + extent}, x));
    begin += extent;
  }
  return parts;
}

std::vector<Tensor> chunk(const Tensor& x, std::size_t count, std::ptrdiff_t axis) {
  const std::size_t along = resolve_axis("chunk", axis, x.rank());
  if (count == 0) throw ValueError("chunk: count is 0, expected 1 or more");
  if (x.shape()[along] % count != 0) {
    throw ShapeError(
        fmt::format("chunk: {} parts of axis {} of x, whose shape is {}, expected an "
                    "extent that is a multiple of {}",
                    count, along, to_string(x.shape()), count));
  }
  return split(x, std::vector<std::size_t>(count, x.shape()[along] / count), axis);
}

namespace {

/// The result is viewed as rows of all axes from `axis` on; each tensor is a part of every row.
struct Concat {
  static constexpr const char* name = "concat";
  static constexpr const char* formula = "y = [x₁; x₂; …]";
  static constexpr const char* derivative = "each input gets its part of dL/dy";
  std::size_t axis;
  std::vector<std::size_t, kernels::PoolAllocator<std::size_t>> parts{};  // elements in a row

  Tensor forward(std::span<const Tensor> tensors) {
    Shape shape = tensors[0].shape();
    shape[axis] = 0;
    for (const Tensor& tensor : tensors) {
      shape[axis] += tensor.shape()[axis];
      parts.push_back(tensor.shape().product(axis, tensor.rank()));
    }
    Tensor y = Tensor::empty(shape, tensors[0].dtype());
    dispatch(y.dtype(), [&]<class T>() {
      kernels::Target<T> out{y.mutable_values<T>().data()};
      for (std::size_t k = 0; k < tensors.size(); out = out + parts[k++]) {
        kernels::copy_rows(rows(y), parts[k], tensors[k].values<T>().data(), parts[k], out,
                           row_length(y));
      }
    });
    return y;
  }

  void backward(const Tensor& dy, std::span<const Gradient> gradients) const {
    dispatch(dy.dtype(), [&]<class T>() {
      const T* in = dy.values<T>().data();
      for (std::size_t k = 0; k < gradients.size(); in += parts[k++]) {
        if (!gradients[k]) continue;
        kernels::copy_rows(rows(dy), parts[k], in, row_length(dy), gradients[k].target<T>(),
                           parts[k]);
      }
    });
  }

 private:
  std::size_t rows(const Tensor& y) const { return y.shape().product(0, axis); }
  std::size_t row_length(const Tensor& y) const { return y.shape().product(axis, y.rank()); }
};

void require_joinable(const Tensor& tensor, const Tensor& first, std::size_t index,
                      std::size_t axis) {
  common_dtype(Concat::name, first, tensor);
  const Shape& expected = first.shape();
  bool fits = tensor.rank() == expected.rank();
  for (std::size_t k = 0; fits && k < expected.rank(); ++k) {
    fits = k == axis || tensor.shape()[k] == expected[k];
  }
  if (!fits) {
    throw ShapeError(
        fmt::format("{}: tensor {} has shape {}, expected {} like tensor 0 except along axis {}",
                    Concat::name, index, to_string(tensor.shape()), to_string(expected), axis));
  }
}

}  // namespace

Tensor concat(std::span<const Tensor> tensors, std::ptrdiff_t axis) {
  if (tensors.empty()) throw ValueError("concat: no tensors given, expected at least 1");
  const std::size_t along = resolve_axis(Concat::name, axis, tensors[0].rank());
  for (std::size_t k = 1; k < tensors.size(); ++k) {
    require_joinable(tensors[k], tensors[0], k, along);
  }
  return apply_to_list(Concat{along}, tensors);
}

Tensor stack(std::span<const Tensor> tensors, std::ptrdiff_t axis) {
  if (tensors.empty()) throw ValueError("stack: no tensors given, expected at least 1");
  const Shape& shape = tensors[0].shape();
  const std::size_t along = resolve_axis("stack", axis, shape.rank() + 1);
  std::vector<Tensor, kernels::PoolAllocator<Tensor>> layers;
  for (const Tensor& tensor : tensors) {
    common_dtype("stack", tensors[0], tensor);
    if (tensor.shape() != shape) {
      throw ShapeError(fmt::format("stack: tensor {} has shape {}, expected {} like tensor 0",
                                   layers.size(), to_string(tensor.shape()), to_string(shape)));
    }
    layers.push_back(reshape(tensor, shape.inserted(along, 1)));
  }
  return concat(layers, static_cast<std::ptrdiff_t>(along));
}

}  // namespace tapestry
