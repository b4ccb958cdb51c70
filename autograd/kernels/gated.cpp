#include "autograd/kernels/gated.h"

#include "autograd/kernels/activations.h"
#include "autograd/kernels/parallel.h"
#include "autograd/kernels/simd.h"

namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE {
namespace {

struct SiluGate {
  template <class T>
  static Vec<T> value(const Vec<T>& x) {
    return silu<T>(x);
  }
  template <class T>
  static ValueAndSlope<T> value_and_slope(const Vec<T>& x) {
    return silu_and_slope<T>(x);
  }
};

struct GeluGate {
  template <class T>
  static Vec<T> value(const Vec<T>& x) {
    return gelu<T>(x);
  }
  template <class T>
  static ValueAndSlope<T> value_and_slope(const Vec<T>& x) {
    return gelu_and_slope<T>(x);
  }
};

/// Calls use(SiluGate{}) or use(GeluGate{}).
template <class Use>
void with_gate(Gate gate, const Use& use) {
  if (gate == Gate::silu) {
    use(SiluGate{});
  } else {
    use(GeluGate{});
  }
}

/// The gradients of one row: of the values and of the gates.
template <class Activation, class T>
void row_backward(std::size_t n, const T* value, const T* gate, const T* g, Target<T> dvalue,
                  Target<T> dgate) {
  const auto gradients = [](const Vec<T>& gradient, const Vec<T>& v, const Vec<T>& x) {
    const ValueAndSlope<T> a = Activation::template value_and_slope<T>(x);
    return ValueAndSlope<T>{gradient * a.value, gradient * v * a.slope};
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
  with_gate(gate, [&]<class Activation>(Activation) {
    parallel_rows(rows, n, [&](std::size_t begin, std::size_t end) {
      for (std::size_t row = begin; row < end; ++row) {
        const T* values = x + 2 * row * n;
        map(
            n, Target<T>{y + row * n},
            [](const Vec<T>& v, const Vec<T>& u) { return v * Activation::template value<T>(u); },
            values, values + n);
      }
    });
  });
}

template <class T>
void gated_backward(Gate gate, std::size_t rows, std::size_t n, const T* x, const T* g,
                    Target<T> dx) {
  with_gate(gate, [&]<class Activation>(Activation) {
    parallel_rows(rows, n, [&](std::size_t begin, std::size_t end) {
      for (std::size_t row = begin; row < end; ++row) {
        const T* values = x + 2 * row * n;
        const Target<T> to = dx + 2 * row * n;
        row_backward<Activation>(n, values, values + n, g + row * n, to, to + n);
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
