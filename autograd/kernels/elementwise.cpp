// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/kernels/elementwise.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "autograd/kernels/activations.h"
#include "autograd/kernels/exp.h"
#include "autograd/kernels/parallel.h"
#include "autograd/kernels/portable_math.h"
#include "autograd/kernels/simd.h"

namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE {
namespace {

/// xsimd 8.1 is accurate to 0.7 epsilon, but wrong for subnormal float64 values, so these are
/// scaled into the normal range first.
template <class T>
Vec<T> logarithm(const Vec<T>& v) {
  using V = Vec<T>;
  constexpr int lift = 54;
  const auto subnormal = v < V(std::numeric_limits<T>::min());
  const V lifted = xsimd::select(subnormal, v * V(static_cast<T>(1LL << lift)), v);
  const V excess = xsimd::select(subnormal, V(static_cast<T>(lift * std::numbers::ln2)), V(T(0)));
  return V(xsimd::log(lifted) - excess);
}

constexpr double max_multiplied = 64.0;

/// x^p, lane by lane.
template <class T>
Vec<T> lanewise_power(const Vec<T>& x, double p) {
  alignas(64) T values[lanes<T>];
  x.store_aligned(values);
  for (T& value : values) value = static_cast<T>(portable::pow(static_cast<double>(value), p));
  return Vec<T>::load_aligned(values);
}

template <class T>
Vec<T> power(const Vec<T>& x, double p) {
  const bool multiplied = p == std::trunc(p) && std::abs(p) <= max_multiplied;
  return multiplied ? xsimd::pow(x, static_cast<int>(p)) : lanewise_power<T>(x, p);
}

/// g p x^(p-1)
template <class T>
Vec<T> power_gradient(const Vec<T>& g, const Vec<T>& x, double p) {
  if (p == 0.0) return Vec<T>(T(0));
  return g * Vec<T>(static_cast<T>(p)) * power<T>(x, p - 1.0);
}

template <class V>
V clamped(const V& v, const V& low, const V& high) {
  return xsimd::select(v < low, low, xsimd::select(v > high, high, v));
}

/// 1 where `holds`, 0 elsewhere.
template <class V, class Holds>
V indicator(const Holds& holds) {
  using T = typename V::value_type;
  return xsimd::select(holds, V(T(1)), V(T(0)));
}

/// The share of a: 1, 1/2 or 0. If only one operand is NaN, its share is 1. NaN is detected by ==,
/// because != of xsimd 8.1 is false for NaN on AVX-512.
template <class V>
V max_gradient_share(const V& a, const V& b) {
  using T = typename V::value_type;
  const V one(T(1)), zero(T(0));
  const V share_if_different = xsimd::select(b == b, xsimd::select(a < b, zero, one), zero);
  return V(xsimd::select(a == b, V(T(0.5)), share_if_different));
}

/// Binary cross entropy of sigmoid(v) for the probability p of the label: |v| (v > 0 ? 1 - p : p) +
/// log(1 + e^-|v|), and 0 for an infinite logit that predicts p.
template <class T>
Vec<T> binary_cross_entropy(const Vec<T>& v, const Vec<T>& p) {
  using V = Vec<T>;
  const V zero(T(0)), one(T(1));
  const V size = xsimd::abs(v);
  const V wrong = xsimd::select(v > zero, one - p, p);
  const V distance = xsimd::select(wrong == zero, zero, size * wrong);
  return distance + xsimd::log1p(kernels::exp<T>(-size));
}

/// factor (sigmoid(v) - p). For v > 0, this is (1 - p) - sigmoid(-v), which does not cancel at
/// p = 1.
template <class T>
Vec<T> binary_cross_entropy_gradient(const Vec<T>& v, const Vec<T>& p, double factor) {
  using V = Vec<T>;
  const V zero(T(0)), one(T(1));
  const V unlikely = sigmoid<T>(-xsimd::abs(v));
  return V(static_cast<T>(factor)) * xsimd::select(v > zero, (one - p) - unlikely, unlikely - p);
}

/// Calls use(f), where f applies the function to vectors.
template <class T, class Use>
void with_function(const Function<Unary>& f, const Use& use) {
  using V = Vec<T>;
  const V p(static_cast<T>(f.p)), q(static_cast<T>(f.q));
  switch (f.name) {
    case Unary::abs:
      return use([](const V& v) { return xsimd::abs(v); });
    case Unary::clamp:
      return use([=](const V& v) { return clamped<V>(v, p, q); });
    case Unary::cos:
      return use([](const V& v) { return xsimd::cos(v); });
    case Unary::divide:
      return use([=](const V& v) { return v / p; });
    case Unary::exp:
      return use([](const V& v) { return kernels::exp<T>(v); });
    case Unary::gelu:
      return use([](const V& v) { return gelu<T>(v); });
    case Unary::gelu_tanh:
      return use([](const V& v) { return gelu_tanh<T>(v); });
    case Unary::log:
      return use([](const V& v) { return logarithm<T>(v); });
    case Unary::neg:  // a product, because xsimd 8.1 computes -v as 0 - v
      return use([](const V& v) { return v * V(T(-1)); });
    case Unary::negate_scale:
      return use([=](const V& v) { return p * -v; });
    case Unary::power:
      return use([exponent = f.p](const V& v) { return power<T>(v, exponent); });
    case Unary::relu:
      return use([](const V& v) { return relu<T>(v); });
    case Unary::scale:
      return use([=](const V& v) { return v * p; });
    case Unary::sigmoid:
      return use([](const V& v) { return sigmoid<T>(v); });
    case Unary::silu:
      return use([](const V& v) { return silu<T>(v); });
    case Unary::sin:
      return use([](const V& v) { return xsimd::sin(v); });
    case Unary::softplus:
      return use([](const V& v) { return softplus<T>(v); });
    case Unary::sqrt:
      return use([](const V& v) { return xsimd::sqrt(v); });
    case Unary::square:
      return use([](const V& v) { return v * v; });
    case Unary::tanh:
      return use([](const V& v) { return xsimd::tanh(v); });
    case Unary::zero_minus:
      return use([](const V& v) { return -v; });
  }
}

template <class T, class Use>
void with_function(const Function<Binary>& f, const Use& use) {
  using V = Vec<T>;
  const V zero(T(0)), p(static_cast<T>(f.p)), q(static_cast<T>(f.q));
  switch (f.name) {
    case Binary::abs_gradient:
      return use([=](const V& g, const V& v) {
        return xsimd::select(v > zero, g, xsimd::select(v < zero, zero - g, zero));
      });
    case Binary::add:
      return use([](const V& a, const V& b) { return a + b; });
    case Binary::binary_cross_entropy:
      return use([](const V& a, const V& b) { return binary_cross_entropy<T>(a, b); });
    case Binary::binary_cross_entropy_gradient:
      return use([factor = f.p](const V& a, const V& b) {
        return binary_cross_entropy_gradient<T>(a, b, factor);
      });
    case Binary::clamp_gradient:
      return use(
          [=](const V& g, const V& v) { return xsimd::select((v >= p) & (v <= q), g, zero); });
    case Binary::cos_gradient:
      return use([](const V& g, const V& v) { return -g * xsimd::sin(v); });
    case Binary::div:
      return use([](const V& a, const V& b) { return a / b; });
    case Binary::equal:
      return use([](const V& a, const V& b) { return indicator<V>(a == b); });
    case Binary::gelu_gradient:
      return use([](const V& g, const V& v) { return g * gelu_derivative<T>(v); });
    case Binary::gelu_tanh_gradient:
      return use([](const V& g, const V& v) { return g * gelu_tanh_derivative<T>(v); });
    case Binary::less:
      return use([](const V& a, const V& b) { return indicator<V>(a < b); });
    case Binary::less_equal:
      return use([](const V& a, const V& b) { return indicator<V>(a <= b); });
    case Binary::masked_mul:
      return use([=](const V& g, const V& share) {
        return xsimd::select(share == zero, zero, g * share);
      });
    case Binary::masked_mul_complement:
      return use([=](const V& g, const V& share) {
        const V one(T(1));
        return xsimd::select(share == one, zero, g * (one - share));
      });
    case Binary::max_gradient_share:
      return use([](const V& a, const V& b) { return max_gradient_share<V>(a, b); });
    case Binary::mul:
      return use([](const V& a, const V& b) { return a * b; });
    case Binary::negate_mul:
      return use([](const V& a, const V& b) { return -a * b; });
    case Binary::not_equal:
      return use([](const V& a, const V& b) { return indicator<V>(!(a == b)); });
    case Binary::power_gradient:
      return use(
          [exponent = f.p](const V& g, const V& v) { return power_gradient<T>(g, v, exponent); });
    case Binary::relu_gradient:
      return use([=](const V& g, const V& y) { return xsimd::select(y <= zero, zero, g); });
    case Binary::relu_scale_gradient:
      return use([=](const V& g, const V& y) { return xsimd::select(y <= zero, zero, g * p); });
    case Binary::right:
      return use([](const V&, const V& b) { return b; });
    case Binary::sigmoid_gradient:
      return use([](const V& g, const V& s) { return g * s * (1 - s); });
    case Binary::silu_gradient:
      return use([](const V& g, const V& v) { return g * silu_derivative<T>(v); });
    case Binary::sin_gradient:
      return use([](const V& g, const V& v) { return g * xsimd::cos(v); });
    case Binary::softplus_gradient:
      return use([](const V& g, const V& v) { return g * sigmoid<T>(v); });
    case Binary::sqrt_gradient:
      return use([](const V& g, const V& r) { return g / (r + r); });
    case Binary::sqrt_gradient_zero_at_0:
      return use(
          [=](const V& g, const V& r) { return xsimd::select(r == zero, zero, g / (r + r)); });
    case Binary::square_gradient:
      return use([](const V& g, const V& v) { return g * (v + v); });
    case Binary::sub:
      return use([](const V& a, const V& b) { return a - b; });
    case Binary::tanh_gradient:
      return use([](const V& g, const V& t) { return g * (1 - t * t); });
  }
}

/// y = f(in...) on all threads.
template <class T, class F, class... In>
void map_in_parallel(std::size_t n, Target<T> y, const F& f, const In*... in) {
  parallel_ranges(n, elements_per_piece, [&](std::size_t begin, std::size_t end) {
    map(end - begin, y + begin, f, (in + begin)...);
  });
}

/// out[i] = f(a[i], b[i]) for i < n, where an operand of stride 0 repeats its single value.
template <class T, class F>
void broadcast_row(std::size_t n, T* out, const F& f, const T* a, std::size_t a_stride, const T* b,
                   std::size_t b_stride) {
  const Target<T> target{out};
  if (a_stride == 0) {
    map(
        n, target, [&, va = Vec<T>(a[0])](const Vec<T>& vb) { return f(va, vb); }, b);
  } else if (b_stride == 0) {
    map(
        n, target, [&, vb = Vec<T>(b[0])](const Vec<T>& va) { return f(va, vb); }, a);
  } else {
    map(n, target, f, a, b);
  }
}

/// out = f(a, b), element by element; f takes and returns vectors.
template <class T, class F>
void broadcast_map(const BroadcastPlan& plan, T* out, const F& f, const T* a, const T* b) {
  const std::size_t n = plan.row_length();
  const std::size_t a_stride = plan.a_strides[plan.axes - 1];
  const std::size_t b_stride = plan.b_strides[plan.axes - 1];
  if (plan.rows() == 1) {
    parallel_ranges(n, elements_per_piece, [&](std::size_t begin, std::size_t end) {
      broadcast_row(end - begin, out + begin, f, a + begin * a_stride, a_stride,
                    b + begin * b_stride, b_stride);
    });
    return;
  }
  parallel_rows(plan.rows(), n, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) {
      const auto [a_offset, b_offset] = plan.row_offsets(row);
      broadcast_row(n, out + row * n, f, a + a_offset, a_stride, b + b_offset, b_stride);
    }
  });
}

}  // namespace

template <class T>
void map_unary(const Function<Unary>& f, std::size_t n, Target<T> y, const T* x) {
  with_function<T>(f, [&](const auto& function) { map_in_parallel(n, y, function, x); });
}

template <class T>
void map_binary(const Function<Binary>& f, std::size_t n, Target<T> y, const T* a, const T* b) {
  with_function<T>(f, [&](const auto& function) { map_in_parallel(n, y, function, a, b); });
}

template <class T>
void where(std::size_t n, Target<T> y, const T* condition, const T* a, const T* b) {
  using V = Vec<T>;
  map_in_parallel(
      n, y,
      [](const V& is_chosen, const V& yes, const V& no) {
        return xsimd::select(is_chosen == V(T(0)), no, yes);
      },
      condition, a, b);
}

template <class T>
void broadcast_binary(const Function<Binary>& f, const BroadcastPlan& plan, T* y, const T* a,
                      const T* b) {
  with_function<T>(f, [&](const auto& function) { broadcast_map(plan, y, function, a, b); });
}

#define TAPESTRY_INSTANTIATE(T)                                                                  \
  template void map_unary(const Function<Unary>&, std::size_t, Target<T>, const T*);             \
  template void map_binary(const Function<Binary>&, std::size_t, Target<T>, const T*, const T*); \
  template void where(std::size_t, Target<T>, const T*, const T*, const T*);                     \
  template void broadcast_binary(const Function<Binary>&, const BroadcastPlan&, T*, const T*,    \
                                 const T*);
TAPESTRY_INSTANTIATE(float)
TAPESTRY_INSTANTIATE(double)
#undef TAPESTRY_INSTANTIATE

}  // namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE
