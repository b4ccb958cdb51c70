// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/ops/reductions.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "autograd/error.h"
#include "autograd/frozen_branches.h"
#include "autograd/kernels/reduce.h"
#include "autograd/operation.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/internal/axes.h"
#include "autograd/ops/internal/elementwise.h"
#include "autograd/ops/shape_ops.h"

namespace tapestry {
namespace {

struct Sum {
  static constexpr const char* name = "sum";
  static constexpr const char* formula = "y = Σ x over some axes";
  static constexpr const char* derivative = "dL/dx = dL/dy, for each value of the sum";
  AxisSet axes;
  bool keep_dims;

  Tensor forward(const Tensor& x) {
    return summed_over(x, axes).viewed_as(reduced_shape(x.shape(), axes, keep_dims));
  }

  void backward(const Tensor& dy, Gradient dx) const { add_expanded(dx, axes, 1.0, dy); }
};

}  // namespace

Tensor sum(const Tensor& x, std::span<const std::ptrdiff_t> axes, bool keep_dims) {
  return apply(Sum{resolve_axes(Sum::name, axes, x.rank()), keep_dims}, x);
}

Tensor sum(const Tensor& x) { return apply(Sum{all_axes(x.rank()), false}, x); }

namespace {

struct Mean {
  static constexpr const char* name = "mean";
  static constexpr const char* formula = "y = 1/n Σ x over some axes, of n values each";
  static constexpr const char* derivative = "dL/dx = dL/dy / n, for each value of the mean";
  AxisSet axes;
  bool keep_dims;

  Tensor forward(const Tensor& x) {
    const auto count = static_cast<double>(require_elements(name, x.shape(), axes));
    return map_values(kernels::Function{kernels::Unary::divide, count}, summed_over(x, axes))
        .viewed_as(reduced_shape(x.shape(), axes, keep_dims));
  }

  void backward(const Tensor& dy, Gradient dx) const {
    const auto count = static_cast<double>(reduced_count(dx.shape(), axes));
    add_expanded(dx, axes, 1.0 / count, dy);
  }
};

}  // namespace

Tensor mean(const Tensor& x, std::span<const std::ptrdiff_t> axes, bool keep_dims) {
  return apply(Mean{resolve_axes(Mean::name, axes, x.rank()), keep_dims}, x);
}

Tensor mean(const Tensor& x) { return apply(Mean{all_axes(x.rank()), false}, x); }

namespace {

using Indices = std::vector<std::size_t, kernels::PoolAllocator<std::size_t>>;

/// A tensor viewed as (outer, extent, inner), with its maxima over the middle axis.
template <class T>
struct Maxima {
  std::size_t outer, extent, inner;
  const T* x;
  T* values;           // (outer, inner)
  std::size_t* where;  // indices along the middle axis, (outer, inner)

  std::size_t size() const { return outer * inner; }
  T element(std::size_t j, std::size_t k) const {
    return x[(j / inner * extent + k) * inner + j % inner];
  }

  void find() const { kernels::max_middle_axis(outer, extent, inner, x, values, where); }

  /// Chooses the frozen element of each column, even if another element is the maximum now.
  void freeze(FrozenBranches& branches, const char* name) const {
    const auto frozen = branches.next(name, size(), [&](std::size_t j) {
      std::size_t equal = 0;
      for (std::size_t k = 0; k < extent; ++k) equal += element(j, k) == values[j] ? 1 : 0;
      return equal > 1 ? FrozenBranches::at_kink : static_cast<std::int32_t>(where[j]);
    });
    for (std::size_t j = 0; j < size(); ++j) {
      if (frozen[j] == FrozenBranches::at_kink) continue;
      where[j] = static_cast<std::size_t>(frozen[j]);
      values[j] = element(j, where[j]);
    }
  }
};

/// The maximum over the adjacent axes [first, last), in the shape `result`.
struct Max {
  static constexpr const char* name = "max";
  static constexpr const char* formula = "y = maximum of x over some axes";
  static constexpr const char* derivative = "dL/dx = dL/dy at the first maximum, else 0";
  std::size_t first, last;
  Shape result;
  Indices where{};  // indices along [first, last)

  Tensor forward(const Tensor& x) {
    Tensor y = Tensor::empty(result, x.dtype());
    where.resize(y.size());
    dispatch(x.dtype(), [&]<class T>() { maxima<T>(y, x).find(); });
    return y;
  }

  void freeze(FrozenBranches& branches, Tensor& y, const Tensor& x) {
    dispatch(x.dtype(), [&]<class T>() { maxima<T>(y, x).freeze(branches, name); });
  }

  void backward(const Tensor& dy, Gradient dx) const {
    const Shape& shape = dx.shape();
    dispatch(dy.dtype(), [&]<class T>() {
      kernels::max_middle_axis_backward(shape.product(0, first), shape.product(first, last),
                                        shape.product(last, shape.rank()), where.data(),
                                        dy.values<T>().data(), dx.target<T>());
    });
  }

  template <class T>
  Maxima<T> maxima(Tensor& y, const Tensor& x) {
    const Shape& shape = x.shape();
    return {.outer = shape.product(0, first),
            .extent = shape.product(first, last),
            .inner = shape.product(last, shape.rank()),
            .x = x.values<T>().data(),
            .values = y.mutable_values<T>().data(),
            .where = where.data()};
  }
};

/// The indices of the maxima.
struct Argmax {
  static constexpr const char* name = "argmax";
  Max max;
  Tensor values{};

  Ids forward(const Tensor& x) {
    values = max.forward(x);
    return indices();
  }

  void freeze(FrozenBranches& branches, Ids& y, const Tensor& x) {
    dispatch(x.dtype(), [&]<class T>() { max.maxima<T>(values, x).freeze(branches, name); });
    y = indices();
  }

 private:
  Ids indices() const {
    Ids result = Ids::zeros(values.shape());
    std::ranges::transform(max.where, result.begin(),
                           [](std::size_t index) { return static_cast<std::int32_t>(index); });
    return result;
  }
};

/// x with `axes` moved to the end; the other axes keep their order.
Tensor with_set_last(const Tensor& x, const AxisSet& axes) {
  std::array<std::ptrdiff_t, Shape::max_rank> order{};
  std::size_t count = 0;
  for (const bool in_set : {false, true}) {
    for (std::size_t axis = 0; axis < x.rank(); ++axis) {
      if (axes[axis] == in_set) order[count++] = static_cast<std::ptrdiff_t>(axis);
    }
  }
  return permute(x, std::span(order).first(count));
}

Tensor max_over(const Tensor& x, const AxisSet& axes, bool keep_dims) {
  require_elements(Max::name, x.shape(), axes);
  const Shape result = reduced_shape(x.shape(), axes, keep_dims);
  const std::size_t rank = x.rank();
  const std::size_t count = axes.count();
  for (std::size_t first = 0; first + count <= rank; ++first) {
    const AxisSet run = all_axes(count) << first;
    if (axes == run) return apply(Max{first, first + count, result}, x);
  }
  return apply(Max{rank - count, rank, result}, with_set_last(x, axes));
}

}  // namespace

Tensor max(const Tensor& x, std::span<const std::ptrdiff_t> axes, bool keep_dims) {
  return max_over(x, resolve_axes(Max::name, axes, x.rank()), keep_dims);
}

Tensor max(const Tensor& x) { return max_over(x, all_axes(x.rank()), false); }

Ids argmax(const Tensor& x, std::ptrdiff_t axis, bool keep_dims) {
  if (x.rank() == 0) {
    resolve_axis(Argmax::name, axis, 1);
    return Ids::zeros({});
  }
  const std::size_t along = resolve_axis(Argmax::name, axis, x.rank());
  AxisSet axes;
  axes.set(along);
  require_elements(Argmax::name, x.shape(), axes);
  const Shape result = reduced_shape(x.shape(), axes, keep_dims);
  return apply_without_gradient(Argmax{{.first = along, .last = along + 1, .result = result}}, x);
}

Tensor min(const Tensor& x, std::span<const std::ptrdiff_t> axes, bool keep_dims) {
  return neg(max(neg(x), axes, keep_dims));
}

Tensor min(const Tensor& x) { return neg(max(neg(x))); }

namespace {

Tensor variance(const Tensor& x, const AxisSet& axes, const VarianceOptions& options) {
  const auto count = static_cast<double>(require_elements("var", x.shape(), axes));
  if (!(count > options.correction)) {
    throw ShapeError(
        fmt::format("var: {} elements of shape {}, expected more than the correction, {}", count,
                    to_string(x.shape()), options.correction));
  }
  const Tensor deviation = x - apply(Mean{axes, true}, x);
  const Tensor total = apply(Sum{axes, options.keep_dims}, square(deviation));
  return total / (count - options.correction);
}

}  // namespace

Tensor var(const Tensor& x, std::span<const std::ptrdiff_t> axes, const VarianceOptions& options) {
  return variance(x, resolve_axes("var", axes, x.rank()), options);
}

Tensor var(const Tensor& x, const VarianceOptions& options) {
  return variance(x, all_axes(x.rank()), options);
}

namespace {

/// The square root with a gradient of 0 at 0.
struct RootOfVariance
    : MapOfOutput<kernels::Unary::sqrt, kernels::Binary::sqrt_gradient_zero_at_0> {
  static constexpr const char* name = "std";
  static constexpr const char* formula = "y = √(Σ (x − mean(x))² / (n − correction))";
  static constexpr const char* derivative =
      "dL/dx = dL/dy · (x − mean(x)) / ((n − correction) y), 0 where y is 0";
};

}  // namespace

Tensor std(const Tensor& x, std::span<const std::ptrdiff_t> axes, const VarianceOptions& options) {
  return apply(RootOfVariance{}, var(x, axes, options));
}

Tensor std(const Tensor& x, const VarianceOptions& options) {
  return apply(RootOfVariance{}, var(x, options));
}

namespace {

struct Cumsum {
  static constexpr const char* name = "cumsum";
  static constexpr const char* formula = "yₖ = x₀ + … + xₖ";
  static constexpr const char* derivative = "dL/dxₖ = Σ dL/dyⱼ over j ≥ k";
  std::size_t axis;

  Tensor forward(const Tensor& x) const {
    Tensor y = Tensor::empty(x.shape(), x.dtype());
    dispatch(x.dtype(), [&]<class T>() {
      run(x, kernels::Target<T>{y.mutable_values<T>().data()}, kernels::Direction::forward);
    });
    return y;
  }

  void backward(const Tensor& dy, Gradient dx) const {
    dispatch(dy.dtype(), [&]<class T>() { run(dy, dx.target<T>(), kernels::Direction::backward); });
  }

 private:
  template <class T>
  void run(const Tensor& x, kernels::Target<T> out, kernels::Direction direction) const {
    const Shape& shape = x.shape();
    kernels::cumulative_sum(direction, shape.product(0, axis), shape[axis],
                            shape.product(axis + 1, shape.rank()), x.values<T>().data(), out);
  }
};

}  // namespace

Tensor cumsum(const Tensor& x, std::ptrdiff_t axis) {
  return apply(Cumsum{resolve_axis(Cumsum::name, axis, x.rank())}, x);
}

Tensor sum_to_shape(const Tensor& x, const Shape& shape) {
  const std::optional<AxisSet> repeated = repeated_axes(x.shape(), shape);
  if (!repeated) {
    throw ShapeError(fmt::format(
        "sum_to_shape: x has shape {}, requested shape {}, expected a shape that broadcasts to the "
        "shape of x",
        to_string(x.shape()), to_string(shape)));
  }
  return reshape(apply(Sum{*repeated, true}, x), shape);
}

}  // namespace tapestry
