#include "autograd/ops/comparison.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "autograd/error.h"
#include "autograd/frozen_branches.h"
#include "autograd/operation.h"
#include "autograd/ops/detail/elementwise.h"
#include "autograd/ops/elementwise.h"

namespace tapestry {
namespace {

/// 1 where `relation` of two vectors holds, as vectors.
template <class Relation>
struct Indicator {
  Relation relation;

  template <class V>
  V operator()(const V& a, const V& b) const {
    using T = typename V::value_type;
    return xsimd::select(relation(a, b), V(T(1)), V(T(0)));
  }
};

/// An element of a comparison is frozen like a branch, unless both operands are equal: then it is
/// at the kink of whatever depends on it.
void take_frozen(FrozenBranches& branches, const char* name, const Tensor& is_at_kink, Tensor& y) {
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

constexpr auto equals = [](const auto& a, const auto& b) { return a == b; };

template <class Relation>
Tensor compare(const char* name, const Relation& relation, const Tensor& a, const Tensor& b) {
  Tensor y = broadcast_values(name, Indicator<Relation>{relation}, a, b);
  if (FrozenBranches* const branches = FrozenBranches::active()) {
    take_frozen(*branches, name, broadcast_values(name, Indicator<decltype(equals)>{equals}, a, b),
                y);
  }
  return y;
}

/// Repeats x along the axes that it lacks.
Tensor expanded(const char* name, const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  const auto second = [](const auto&, const auto& v) { return v; };
  return broadcast_values(name, second, Tensor::empty(shape, x.dtype()), x);
}

constexpr auto chosen = []<class V>(const V& c, const V& a, const V& b) {
  return xsimd::select(c == V(typename V::value_type(0)), b, a);
};

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
    return map_values(chosen, condition, expanded(name, a, shape), expanded(name, b, shape));
  }

  void backward(const Tensor& dy, Gradient da, Gradient db) const {
    const Tensor zeros = Tensor::zeros(dy.shape(), dy.dtype());
    if (da) add_unbroadcast(da, map_values(chosen, condition, dy, zeros));
    if (db) add_unbroadcast(db, map_values(chosen, condition, zeros, dy));
  }
};

/// The share of a in the gradient of max(a, b): 1, 1/2 or 0. An operand that is NaN has it all. NaN
/// is found by ==, because != of xsimd 8.1 is false for it on AVX-512.
constexpr auto share_of_larger = []<class V>(const V& a, const V& b) {
  using T = typename V::value_type;
  const V one(T(1)), zero(T(0));
  const V of_different = xsimd::select(b == b, xsimd::select(a < b, zero, one), zero);
  return V(xsimd::select(a == b, V(T(0.5)), of_different));
};

constexpr auto part_of_share = []<class V>(const V& g, const V& share) {
  using T = typename V::value_type;
  return xsimd::select(share == V(T(0)), V(T(0)), g * share);
};
constexpr auto rest_of_share = []<class V>(const V& g, const V& share) {
  using T = typename V::value_type;
  return xsimd::select(share == V(T(1)), V(T(0)), g * (V(T(1)) - share));
};

/// The larger of two operands.
struct Maximum {
  static constexpr const char* name = "maximum";
  static constexpr const char* formula = "y = max(a, b)";
  static constexpr const char* derivative =
      "dL/da = dL/dy where a > b, dL/db = dL/dy where b > a, half each where they are equal";
  Tensor share{};  // of a in the gradient

  Tensor forward(const Tensor& a, const Tensor& b) {
    share = broadcast_values(name, share_of_larger, a, b);
    if (FrozenBranches* const branches = FrozenBranches::active()) {
      take_frozen(*branches, name,
                  broadcast_values(name, Indicator<decltype(equals)>{equals}, a, b), share);
    }
    return map_values(chosen, share, expanded(name, a, share.shape()),
                      expanded(name, b, share.shape()));
  }

  void backward(const Tensor& dy, Gradient da, Gradient db) const {
    if (da) add_unbroadcast(da, map_values(part_of_share, dy, share));
    if (db) add_unbroadcast(db, map_values(rest_of_share, dy, share));
  }
};

/// The branches that the elements of x take, or that were frozen: the number of limits
/// (in rising order) that each is above. At a limit it is at a kink.
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
    Tensor y = map_values(
        [this]<class V>(const V& v) {
          using T = typename V::value_type;
          const V floor(static_cast<T>(low)), ceiling(static_cast<T>(high));
          return xsimd::select(v < floor, floor, xsimd::select(v > ceiling, ceiling, v));
        },
        x);
    if (FrozenBranches* const branches = FrozenBranches::active()) take_frozen_pieces(*branches, y);
    return y;
  }

  void take_frozen_pieces(FrozenBranches& branches, Tensor& y) const {
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
    map_gradient(
        dx,
        [this]<class V>(const V& g, const V& v) {
          using T = typename V::value_type;
          const V floor(static_cast<T>(low)), ceiling(static_cast<T>(high));
          return xsimd::select((v >= floor) & (v <= ceiling), g, V(T(0)));
        },
        dy, x);
  }
};

struct Abs {
  static constexpr const char* name = "abs";
  static constexpr const char* formula = "y = |x|";
  static constexpr const char* derivative = "dL/dx = dL/dy · sign(x)";
  Tensor x{};

  Tensor forward(const Tensor& input) {
    x = input;
    Tensor y = map_values([](const auto& v) { return xsimd::abs(v); }, x);
    if (FrozenBranches* const branches = FrozenBranches::active()) take_frozen_signs(*branches, y);
    return y;
  }

  void take_frozen_signs(FrozenBranches& branches, Tensor& y) const {
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
    map_gradient(
        dx,
        []<class V>(const V& g, const V& v) {
          const V zero(typename V::value_type(0));
          return xsimd::select(v > zero, g, xsimd::select(v < zero, zero - g, zero));
        },
        dy, x);
  }
};

}  // namespace

Tensor less(const Tensor& a, const Tensor& b) {
  return compare(
      "less", [](const auto& u, const auto& v) { return u < v; }, a, b);
}

Tensor less_equal(const Tensor& a, const Tensor& b) {
  return compare(
      "less_equal", [](const auto& u, const auto& v) { return u <= v; }, a, b);
}

Tensor equal(const Tensor& a, const Tensor& b) { return compare("equal", equals, a, b); }

Tensor not_equal(const Tensor& a, const Tensor& b) {
  return compare(
      "not_equal", [](const auto& u, const auto& v) { return !(u == v); }, a, b);
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
