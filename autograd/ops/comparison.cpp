// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/ops/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "autograd/error.h"
#include "autograd/frozen_branches.h"
#include "autograd/operation.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/internal/elementwise.h"

namespace tapestry {
namespace {

using kernels::Binary;
using kernels::Function;
using kernels::Unary;

/// a where the condition is not 0, else b; all have the same shape.
Tensor where_values(const Tensor& condition, const Tensor& a, const Tensor& b) {
  Tensor y = Tensor::empty(a.shape(), a.dtype());
  dispatch(a.dtype(), [&]<class T>() {
    kernels::where<T>(y.size(), {y.mutable_values<T>().data()}, condition.values<T>().data(),
                      a.values<T>().data(), b.values<T>().data());
  });
  return y;
}

/// Freezes the elements of a comparison like branches. An element with equal operands is at a kink
/// and not frozen.
void freeze_relation(FrozenBranches& branches, const char* name, Tensor& y, const Tensor& a,
                     const Tensor& b) {
  const Tensor is_at_kink = broadcast_values(name, Binary::equal, a, b);
  dispatch(y.dtype(), [&]<class T>() {
    const auto kink = is_at_kink.values<T>();
    const auto out = y.mutable_values<T>();
    const auto frozen = branches.next(name, out.size(), [&](std::size_t i) {
      return kink[i] != T(0) ? FrozenBranches::at_kink : static_cast<std::int32_t>(out[i]);
    });
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (frozen[i] != FrozenBranches::at_kink) out[i] = static_cast<T>(frozen[i]);
    }
  });
}

struct Comparison {
  const char* name;
  Binary relation;

  Tensor forward(const Tensor& a, const Tensor& b) const {
    return broadcast_values(name, relation, a, b);
  }
  void freeze(FrozenBranches& branches, Tensor& y, const Tensor& a, const Tensor& b) const {
    freeze_relation(branches, name, y, a, b);
  }
};

/// x, expanded to `shape`.
Tensor expanded(const char* name, const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  return broadcast_values(name, Binary::right, Tensor::empty(shape, x.dtype()), x);
}

struct Where {
  static constexpr const char* name = "where";
  static constexpr const char* formula = "y = a where the condition is not 0, else b";
  static constexpr const char* derivative =
      "dL/da = dL/dy where a is chosen, else 0; dL/db where b is";
  Tensor condition;

  Tensor forward(const Tensor& a, const Tensor& b) {
    common_dtype(name, condition, a);
    const Shape shape =
        broadcast_shape(name, broadcast_shape(name, condition.shape(), a.shape()), b.shape());
    common_dtype(name, a, b);
    condition = expanded(name, condition, shape);
    return where_values(condition, expanded(name, a, shape), expanded(name, b, shape));
  }

  void backward(const Tensor& dy, Gradient da, Gradient db) const {
    const Tensor zeros = Tensor::zeros(dy.shape(), dy.dtype());
    if (da) add_unbroadcast(da, where_values(condition, dy, zeros));
    if (db) add_unbroadcast(db, where_values(condition, zeros, dy));
  }
};

/// The larger of two operands.
struct Maximum {
  static constexpr const char* name = "maximum";
  static constexpr const char* formula = "y = max(a, b)";
  static constexpr const char* derivative =
      "dL/da = dL/dy where a > b, dL/db = dL/dy where b > a, half each where they are equal";
  Tensor share{};  // the share of dL/dy that is added to dL/da

  Tensor forward(const Tensor& a, const Tensor& b) {
    share = broadcast_values(name, Binary::max_gradient_share, a, b);
    return chosen(a, b);
  }

  void freeze(FrozenBranches& branches, Tensor& y, const Tensor& a, const Tensor& b) {
    freeze_relation(branches, name, share, a, b);
    y = chosen(a, b);
  }

  Tensor chosen(const Tensor& a, const Tensor& b) const {
    return where_values(share, expanded(name, a, share.shape()), expanded(name, b, share.shape()));
  }

  void backward(const Tensor& dy, Gradient da, Gradient db) const {
    if (da) add_unbroadcast(da, map_values(Binary::masked_mul, dy, share));
    if (db) add_unbroadcast(db, map_values(Binary::masked_mul_complement, dy, share));
  }
};

/// The branches that the elements of x take, or their frozen branches: the number of limits, in
/// ascending order, that an element exceeds. An element equal to a limit is at a kink.
std::vector<std::int32_t> frozen_pieces(FrozenBranches& branches, const char* name, const Tensor& x,
                                        std::span<const double> limits) {
  std::vector<std::int32_t> pieces;
  dispatch(x.dtype(), [&]<class T>() {
    const auto in = x.values<T>();
    const auto frozen = branches.next(name, in.size(), [&](std::size_t i) {
      std::int32_t piece = 0;
      for (const double limit : limits) {
        if (in[i] == static_cast<T>(limit)) return FrozenBranches::at_kink;
        piece += in[i] > static_cast<T>(limit) ? 1 : 0;
      }
      return piece;
    });
    pieces.assign(frozen.begin(), frozen.end());
  });
  return pieces;
}

/// y = min(max(x, low), high)
struct Clamp {
  static constexpr const char* name = "clamp";
  static constexpr const char* formula = "y = min(max(x, low), high)";
  static constexpr const char* derivative = "dL/dx = dL/dy where low ≤ x ≤ high, else 0";
  double low, high;
  Tensor x{};

  Tensor forward(const Tensor& input) {
    x = input;
    return map_values(Function{Unary::clamp, low, high}, x);
  }

  void freeze(FrozenBranches& branches, Tensor& y, const Tensor&) const {
    const auto pieces = frozen_pieces(branches, name, x, std::array{low, high});
    dispatch(x.dtype(), [&]<class T>() {
      const auto in = x.values<T>();
      const auto out = y.mutable_values<T>();
      const std::array<T, 2> limits{static_cast<T>(low), static_cast<T>(high)};
      for (std::size_t i = 0; i < out.size(); ++i) {
        if (pieces[i] == FrozenBranches::at_kink) continue;
        out[i] = pieces[i] == 1 ? in[i] : limits[pieces[i] == 0 ? 0 : 1];
      }
    });
  }

  void backward(const Tensor& dy, Gradient dx) const {
    map_gradient(dx, Function{Binary::clamp_gradient, low, high}, dy, x);
  }
};

struct Abs {
  static constexpr const char* name = "abs";
  static constexpr const char* formula = "y = |x|";
  static constexpr const char* derivative = "dL/dx = dL/dy · sign(x)";
  Tensor x{};

  Tensor forward(const Tensor& input) {
    x = input;
    return map_values(Unary::abs, x);
  }

  void freeze(FrozenBranches& branches, Tensor& y, const Tensor&) const {
    const auto pieces = frozen_pieces(branches, name, x, std::array{0.0});
    dispatch(x.dtype(), [&]<class T>() {
      const auto in = x.values<T>();
      const auto out = y.mutable_values<T>();
      for (std::size_t i = 0; i < out.size(); ++i) {
        if (pieces[i] != FrozenBranches::at_kink) out[i] = pieces[i] == 1 ? in[i] : -in[i];
      }
    });
  }

  void backward(const Tensor& dy, Gradient dx) const {
    map_gradient(dx, Binary::abs_gradient, dy, x);
  }
};

}  // namespace

Tensor less(const Tensor& a, const Tensor& b) {
  return apply_without_gradient(Comparison{"less", Binary::less}, a, b);
}

Tensor less_equal(const Tensor& a, const Tensor& b) {
  return apply_without_gradient(Comparison{"less_equal", Binary::less_equal}, a, b);
}

Tensor equal(const Tensor& a, const Tensor& b) {
  return apply_without_gradient(Comparison{"equal", Binary::equal}, a, b);
}

Tensor not_equal(const Tensor& a, const Tensor& b) {
  return apply_without_gradient(Comparison{"not_equal", Binary::not_equal}, a, b);
}

bool allclose(const Tensor& a, const Tensor& b, double relative, double absolute) {
  const NoGrad no_grad;
  const Tensor equals = broadcast_values("allclose", Binary::equal, a, b);
  const Tensor difference = abs(a - b);
  const Tensor near = (difference <= relative * abs(b) + absolute) *
                      (difference < std::numeric_limits<double>::infinity());
  const std::vector<double> close = maximum(equals, near).to_vector();
  return std::ranges::find(close, 0.0) == close.end();
}

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  return apply(Where{condition}, a, b);
}

Tensor maximum(const Tensor& a, const Tensor& b) { return apply(Maximum{}, a, b); }

Tensor minimum(const Tensor& a, const Tensor& b) { return neg(maximum(neg(a), neg(b))); }

Tensor clamp(const Tensor& x, double low, double high) {
  if (!(low <= high)) {
    throw ValueError(fmt::format("clamp: the limits are {} and {}, expected low <= high",
                                 printable(low), printable(high)));
  }
  return apply(Clamp{low, high}, x);
}

Tensor abs(const Tensor& x) { return apply(Abs{}, x); }

Tensor sign(const Tensor& x) { return (x > 0.0) - (x < 0.0); }

}  // namespace tapestry
