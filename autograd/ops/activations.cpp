#include "autograd/ops/activations.h"

#include <fmt/format.h>

#include "autograd/error.h"
#include "autograd/kernels/gated.h"
#include "autograd/kernels/softmax.h"
#include "autograd/operation.h"
#include "autograd/ops/internal/elementwise.h"
#include "autograd/ops/internal/rows.h"

namespace tapestry {
namespace {

using kernels::Binary;
using kernels::Unary;

struct Relu {
  static constexpr const char* name = "relu";
  static constexpr const char* formula = "y = max(x, 0)";
  static constexpr const char* derivative = "dL/dx = dL/dy where x > 0, else 0";
  Tensor y{};

  Tensor forward(const Tensor& x) {
    if (FrozenBranches* const branches = FrozenBranches::active()) {
      return y = frozen_relu(*branches, x);
    }
    return y = map_values(Unary::relu, x);
  }

  void backward(const Tensor& dy, Gradient dx) const {
    map_gradient(dx, Binary::relu_gradient, dy, y);
  }
};

struct Gelu {
  static constexpr const char* name = "gelu";
  static constexpr const char* formula = "y = x Φ(x)";
  static constexpr const char* derivative = "dL/dx = dL/dy · (Φ(x) + x φ(x))";
  Tensor x{};

  Tensor forward(const Tensor& input) {
    x = input;
    return map_values(Unary::gelu, x);
  }

  void backward(const Tensor& dy, Gradient dx) const {
    map_gradient(dx, Binary::gelu_gradient, dy, x);
  }
};

struct GeluTanh {
  static constexpr const char* name = "gelu_tanh";
  static constexpr const char* formula = "y = x/2 · (1 + tanh(√(2/π) (x + 0.044715 x³)))";
  static constexpr const char* derivative = "dL/dx = dL/dy · y′(x)";
  Tensor x{};

  Tensor forward(const Tensor& input) {
    x = input;
    return map_values(Unary::gelu_tanh, x);
  }

  void backward(const Tensor& dy, Gradient dx) const {
    map_gradient(dx, Binary::gelu_tanh_gradient, dy, x);
  }
};

struct Sigmoid {
  static constexpr const char* name = "sigmoid";
  static constexpr const char* formula = "y = σ(x) = 1 / (1 + exp(−x))";
  static constexpr const char* derivative = "dL/dx = dL/dy · y (1 − y)";
  Tensor y{};

  Tensor forward(const Tensor& x) {
    return y = map_values(Unary::sigmoid, x);
  }

  void backward(const Tensor& dy, Gradient dx) const {
    map_gradient(dx, Binary::sigmoid_gradient, dy, y);
  }
};

struct Softplus {
  static constexpr const char* name = "softplus";
  static constexpr const char* formula = "y = log(1 + exp(x))";
  static constexpr const char* derivative = "dL/dx = dL/dy · σ(x)";
  Tensor x{};

  Tensor forward(const Tensor& input) {
    x = input;
    return map_values(Unary::softplus, x);
  }

  void backward(const Tensor& dy, Gradient dx) const {
    map_gradient(dx, Binary::softplus_gradient, dy, x);
  }
};

struct Silu {
  static constexpr const char* name = "silu";
  static constexpr const char* formula = "y = x σ(x)";
  static constexpr const char* derivative = "dL/dx = dL/dy · σ(x) (1 + x (1 − σ(x)))";
  Tensor x{};

  Tensor forward(const Tensor& input) {
    x = input;
    return map_values(Unary::silu, x);
  }

  void backward(const Tensor& dy, Gradient dx) const {
    map_gradient(dx, Binary::silu_gradient, dy, x);
  }
};

struct Tanh {
  static constexpr const char* name = "tanh";
  static constexpr const char* formula = "y = tanh(x)";
  static constexpr const char* derivative = "dL/dx = dL/dy · (1 − y²)";
  Tensor y{};

  Tensor forward(const Tensor& x) {
    return y = map_values(Unary::tanh, x);
  }

  void backward(const Tensor& dy, Gradient dx) const {
    map_gradient(dx, Binary::tanh_gradient, dy, y);
  }
};

// Gated units: the first half of x's last axis times the activation of the second.

void require_halves(const char* operation, const Tensor& x) {
  if (x.rank() > 0 && x.shape().back() % 2 == 0) return;
  throw ShapeError(
      fmt::format("{}: x has shape {}, expected a last axis of two halves, values and gates",
                  operation, to_string(x.shape())));
}

/// Number of rows along the last axis.
std::size_t count_rows(const Tensor& y) { return y.shape().product(0, y.rank() - 1); }

Tensor gated_values(kernels::Gate gate, const Tensor& x) {
  const std::size_t n = x.shape().back() / 2;
  Tensor y = Tensor::empty(x.shape().with_last(n), x.dtype());
  dispatch(x.dtype(), [&]<class T>() {
    kernels::gated(gate, count_rows(y), n, x.values<T>().data(), y.mutable_values<T>().data());
  });
  return y;
}

void gated_gradient(kernels::Gate gate, const Tensor& dy, const Tensor& x, const Gradient& dx) {
  dispatch(dy.dtype(), [&]<class T>() {
    kernels::gated_backward(gate, count_rows(dy), dy.shape().back(), x.values<T>().data(),
                            dy.values<T>().data(), dx.target<T>());
  });
}

struct Swiglu {
  static constexpr const char* name = "swiglu";
  static constexpr const char* formula = "y = value · SiLU(gate)";
  static constexpr const char* derivative =
      "dL/dvalue = dL/dy · SiLU(gate), dL/dgate = dL/dy · value · SiLU′(gate)";
  Tensor x{};

  Tensor forward(const Tensor& input) {
    x = input;
    return gated_values(kernels::Gate::silu, x);
  }

  void backward(const Tensor& dy, Gradient dx) const {
    gated_gradient(kernels::Gate::silu, dy, x, dx);
  }
};

struct Geglu {
  static constexpr const char* name = "geglu";
  static constexpr const char* formula = "y = value · GELU(gate)";
  static constexpr const char* derivative =
      "dL/dvalue = dL/dy · GELU(gate), dL/dgate = dL/dy · value · GELU′(gate)";
  Tensor x{};

  Tensor forward(const Tensor& input) {
    x = input;
    return gated_values(kernels::Gate::gelu, x);
  }

  void backward(const Tensor& dy, Gradient dx) const {
    gated_gradient(kernels::Gate::gelu, dy, x, dx);
  }
};

struct Softmax {
  static constexpr const char* name = "softmax";
  static constexpr const char* formula = "yᵢ = exp(xᵢ) / Σⱼ exp(xⱼ)";
  static constexpr const char* derivative = "dL/dx = y · (dL/dy − Σ y · dL/dy)";
  Tensor y{};

  Tensor forward(const Tensor& x) {
    const Rows rows = require_rows(name, x);
    y = Tensor::empty(x.shape(), x.dtype());
    dispatch(x.dtype(), [&]<class T>() {
      const T* in = x.values<T>().data();
      T* out = y.mutable_values<T>().data();
      for_each_row(rows, [&](std::size_t at) { kernels::softmax_row(rows.n, in + at, out + at); });
    });
    return y;
  }

  void backward(const Tensor& dy, Gradient dx) const {
    const Rows rows = require_rows(name, dy);
    dispatch(dy.dtype(), [&]<class T>() {
      const T* weights = y.values<T>().data();
      const T* g = dy.values<T>().data();
      const kernels::Target<T> out = dx.target<T>();
      for_each_row(rows, [&](std::size_t at) {
        kernels::softmax_row_backward(rows.n, weights + at, g + at, out + at);
      });
    });
  }
};

struct LogSoftmax {
  static constexpr const char* name = "log_softmax";
  static constexpr const char* formula = "y = log softmax(x)";
  static constexpr const char* derivative = "dL/dx = dL/dy − softmax(x) · Σ dL/dy";
  Tensor y{};

  Tensor forward(const Tensor& x) {
    const Rows rows = require_rows(name, x);
    y = Tensor::empty(x.shape(), x.dtype());
    dispatch(x.dtype(), [&]<class T>() {
      const T* in = x.values<T>().data();
      T* out = y.mutable_values<T>().data();
      for_each_row(rows,
                   [&](std::size_t at) { kernels::log_softmax_row(rows.n, in + at, out + at); });
    });
    return y;
  }

  void backward(const Tensor& dy, Gradient dx) const {
    const Rows rows = require_rows(name, dy);
    dispatch(dy.dtype(), [&]<class T>() {
      const T* log_weights = y.values<T>().data();
      const T* g = dy.values<T>().data();
      const kernels::Target<T> out = dx.target<T>();
      for_each_row(rows, [&](std::size_t at) {
        kernels::log_softmax_row_backward(rows.n, log_weights + at, g + at, out + at);
      });
    });
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
