// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/kernels/gated.h"

#include "autograd/kernels/activations.h"
#include "autograd/kernels/parallel.h"
#include "autograd/kernels/simd.h"

namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE {
namespace {

/// Calls use(activation) with the activation of the gate as a function on vectors.
template <class T, class Use>
void with_activation(Gate gate, const Use& use) {
  if (gate == Gate::silu) {
    use([](const Vec<T>& x) { return silu<T>(x); });
  } else {
    use([](const Vec<T>& x) { return gelu<T>(x); });
  }
}

/// Calls use(f) with the function on vectors that returns the activation and its derivative.
template <class T, class Use>
void with_value_and_slope(Gate gate, const Use& use) {
  if (gate == Gate::silu) {
    use([](const Vec<T>& x) { return silu_and_slope<T>(x); });
  } else {
    use([](const Vec<T>& x) { return gelu_and_slope<T>(x); });
  }
}

/// The gradients of the values and of the gates of one row.
template <class T, class Activation>
void gated_row_backward(const Activation& value_and_slope, std::size_t n, const T* value,
                        const T* gate, const T* g, Target<T> dvalue, Target<T> dgate) {
  struct Gradients {
    Vec<T> value, gate;
  };
  const auto gradients = [&](const Vec<T>& gradient, const Vec<T>& v, const Vec<T>& u) {
    const ValueAndSlope<T> a = value_and_slope(u);
    return Gradients{gradient * a.value, gradient * v * a.slope};
  };
  std::size_t i = 0;
  for (; i + lanes<T> <= n; i += lanes<T>) {
    const auto [to_value, to_gate] = gradients(load(g + i), load(value + i), load(gate + i));
    store(dvalue, i, to_value);
    store(dgate, i, to_gate);
  }
  if (i == n) return;
  const std::size_t left = n - i;
  const auto [to_value, to_gate] =
      gradients(load_tail(g + i, left), load_tail(value + i, left), load_tail(gate + i, left));
  store_tail(dvalue, i, left, to_value);
  store_tail(dgate, i, left, to_gate);
}

}  // namespace

template <class T>
void gated(Gate gate, std::size_t rows, std::size_t n, const T* x, T* y) {
  with_activation<T>(gate, [&](const auto& activation) {
    parallel_rows(rows, n, [&](std::size_t begin, std::size_t end) {
      for (std::size_t row = begin; row < end; ++row) {
        const T* values = x + 2 * row * n;
        map(
            n, Target<T>{y + row * n},
            [&](const Vec<T>& v, const Vec<T>& u) { return v * activation(u); }, values,
            values + n);
      }
    });
  });
}

template <class T>
void gated_backward(Gate gate, std::size_t rows, std::size_t n, const T* x, const T* g,
                    Target<T> dx) {
  with_value_and_slope<T>(gate, [&](const auto& value_and_slope) {
    parallel_rows(rows, n, [&](std::size_t begin, std::size_t end) {
      for (std::size_t row = begin; row < end; ++row) {
        const T* values = x + 2 * row * n;
        const Target<T> to = dx + 2 * row * n;
        gated_row_backward<T>(value_and_slope, n, values, values + n, g + row * n, to, to + n);
      }
    });
  });
}

#define TAPESTRY_INSTANTIATE(T)                                      \
  template void gated(Gate, std::size_t, std::size_t, const T*, T*); \
  template void gated_backward(Gate, std::size_t, std::size_t, const T*, const T*, Target<T>);
TAPESTRY_INSTANTIATE(float)
TAPESTRY_INSTANTIATE(double)
#undef TAPESTRY_INSTANTIATE

}  // namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE
