// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/ops/activations.h"

#include <fmt/format.h>

#include "autograd/error.h"
#include "autograd/kernels/elementwise.h"
#include "autograd/kernels/gated.h"
#include "autograd/kernels/softmax.h"
#include "autograd/operation.h"
#include "autograd/ops/internal/axes.h"
#include "autograd/ops/internal/elementwise.h"

namespace tapestry {
namespace {

using kernels::Binary;
using kernels::Unary;

struct Relu {
  static constexpr const char* name = "relu";
  static constexpr const char* formula = "y = max(x, 0)";
  static constexpr const char* derivative = "dL/dx = dL/dy where x > 0, else 0";
  Tensor y{};

  Tensor forward(const Tensor& x) { return y = map_values(Unary::relu, x); }
  void freeze(FrozenBranches& branches, Tensor& output, const Tensor& x) const {
    freeze_relu(branches, output, x);
  }

  void backward(const Tensor& dy, Gradient dx) const {
    map_gradient(dx, Binary::relu_gradient, dy, y);
  }
};

struct Gelu : MapOfInput<Unary::gelu, Binary::gelu_gradient> {
  static constexpr const char* name = "gelu";
  static constexpr const char* formula = "y = x Φ(x), Φ the standard normal distribution function";
  static constexpr const char* derivative = "dL/dx = dL/dy · (Φ(x) + x Φ′(x))";
};

struct GeluTanh : MapOfInput<Unary::gelu_tanh, Binary::gelu_tanh_gradient> {
  static constexpr const char* name = "gelu_tanh";
  static constexpr const char* formula = "y = x/2 · (1 + tanh(√(2/π) (x + 0.044715 x³)))";
  static constexpr const char* derivative = "dL/dx = dL/dy · y′(x)";
};

struct Sigmoid : MapOfOutput<Unary::sigmoid, Binary::sigmoid_gradient> {
  static constexpr const char* name = "sigmoid";
  static constexpr const char* formula = "y = σ(x) = 1 / (1 + exp(−x))";
  static constexpr const char* derivative = "dL/dx = dL/dy · y (1 − y)";
};

struct Softplus : MapOfInput<Unary::softplus, Binary::softplus_gradient> {
  static constexpr const char* name = "softplus";
  static constexpr const char* formula = "y = log(1 + exp(x))";
  static constexpr const char* derivative = "dL/dx = dL/dy / (1 + exp(−x))";
};

struct Silu : MapOfInput<Unary::silu, Binary::silu_gradient> {
  static constexpr const char* name = "silu";
  static constexpr const char* formula = "y = x σ(x), σ(x) = 1 / (1 + exp(−x))";
  static constexpr const char* derivative = "dL/dx = dL/dy · σ(x) (1 + x (1 − σ(x)))";
};

struct Tanh : MapOfOutput<Unary::tanh, Binary::tanh_gradient> {
  static constexpr const char* name = "tanh";
  static constexpr const char* formula = "y = tanh(x)";
  static constexpr const char* derivative = "dL/dx = dL/dy · (1 − y²)";
};

// Gated units: the first half of x's last axis times the activation of the second half.

void require_halves(const char* operation, const Tensor& x) {
  if (x.rank() > 0 && x.shape().back() % 2 == 0) return;
  throw ShapeError(
      fmt::format("{}: x has shape {}, expected a last axis of two halves, values and gates",
                  operation, to_string(x.shape())));
}

/// A gated unit with one of the activations.
template <kernels::Gate gate>
struct Gated {
  Tensor x{};

  Tensor forward(const Tensor& input) {
    x = input;
    Tensor y = Tensor::empty(x.shape().with_last(x.shape().back() / 2), x.dtype());
    dispatch(x.dtype(), [&]<class T>() {
      kernels::gated(gate, rows(y), y.shape().back(), x.values<T>().data(),
                     y.mutable_values<T>().data());
    });
    return y;
  }

  void backward(const Tensor& dy, Gradient dx) const {
    dispatch(dy.dtype(), [&]<class T>() {
      kernels::gated_backward(gate, rows(dy), dy.shape().back(), x.values<T>().data(),
                              dy.values<T>().data(), dx.target<T>());
    });
  }

 private:
  static std::size_t rows(const Tensor& y) { return y.shape().product(0, y.rank() - 1); }
};

struct Swiglu : Gated<kernels::Gate::silu> {
  static constexpr const char* name = "swiglu";
  static constexpr const char* formula = "y = value · SiLU(gate)";
  static constexpr const char* derivative =
      "dL/dvalue = dL/dy · SiLU(gate), dL/dgate = dL/dy · value · SiLU′(gate)";
};

struct Geglu : Gated<kernels::Gate::gelu> {
  static constexpr const char* name = "geglu";
  static constexpr const char* formula = "y = value · GELU(gate)";
  static constexpr const char* derivative =
      "dL/dvalue = dL/dy · GELU(gate), dL/dgate = dL/dy · value · GELU′(gate)";
};

/// Calls run(n, x, y) for each row along the last axis.
template <class Run>
Tensor map_rows(const char* operation, const Tensor& x, const Run& run) {
  const Rows rows = require_rows(operation, x);
  Tensor y = Tensor::empty(x.shape(), x.dtype());
  dispatch(x.dtype(), [&]<class T>() {
    const T* in = x.values<T>().data();
    T* out = y.mutable_values<T>().data();
    for_each_row(rows, [&](std::size_t offset) { run(rows.n, in + offset, out + offset); });
  });
  return y;
}

/// Contributes run(n, y, dy, dx) for each row.
template <class Run>
void map_row_gradients(const char* operation, const Tensor& y, const Tensor& dy, const Gradient& dx,
                       const Run& run) {
  const Rows rows = require_rows(operation, dy);
  dispatch(dy.dtype(), [&]<class T>() {
    const T* forward_y = y.values<T>().data();
    const T* g = dy.values<T>().data();
    const kernels::Target<T> out = dx.target<T>();
    for_each_row(rows, [&](std::size_t offset) {
      run(rows.n, forward_y + offset, g + offset, out + offset);
    });
  });
}

struct Softmax {
  static constexpr const char* name = "softmax";
  static constexpr const char* formula = "yᵢ = exp(xᵢ) / Σⱼ exp(xⱼ)";
  static constexpr const char* derivative = "dL/dx = y · (dL/dy − Σ y · dL/dy)";
  Tensor y{};

  Tensor forward(const Tensor& x) {
    return y = map_rows(name, x, [](auto... row) { kernels::softmax_row(row...); });
  }

  void backward(const Tensor& dy, Gradient dx) const {
    map_row_gradients(name, y, dy, dx, [](auto... row) { kernels::softmax_row_backward(row...); });
  }
};

struct LogSoftmax {
  static constexpr const char* name = "log_softmax";
  static constexpr const char* formula = "y = log softmax(x)";
  static constexpr const char* derivative = "dL/dx = dL/dy − softmax(x) · Σ dL/dy";
  Tensor y{};

  Tensor forward(const Tensor& x) {
    return y = map_rows(name, x, [](auto... row) { kernels::log_softmax_row(row...); });
  }

  void backward(const Tensor& dy, Gradient dx) const {
    map_row_gradients(name, y, dy, dx,
                      [](auto... row) { kernels::log_softmax_row_backward(row...); });
  }
};

}  // namespace

Tensor relu(const Tensor& x) { return apply(Relu{}, x); }
Tensor gelu(const Tensor& x) { return apply(Gelu{}, x); }
Tensor gelu_tanh(const Tensor& x) { return apply(GeluTanh{}, x); }
Tensor sigmoid(const Tensor& x) { return apply(Sigmoid{}, x); }
Tensor softplus(const Tensor& x) { return apply(Softplus{}, x); }
Tensor silu(const Tensor& x) { return apply(Silu{}, x); }
Tensor tanh(const Tensor& x) { return apply(Tanh{}, x); }

Tensor swiglu(const Tensor& x) {
  require_halves(Swiglu::name, x);
  return apply(Swiglu{}, x);
}

Tensor geglu(const Tensor& x) {
  require_halves(Geglu::name, x);
  return apply(Geglu{}, x);
}

Tensor softmax(const Tensor& x) { return apply(Softmax{}, x); }

Tensor log_softmax(const Tensor& x) { return apply(LogSoftmax{}, x); }

}  // namespace tapestry
