#include "autograd/ops/norms.h"

#include "autograd/kernels/norms.h"
#include "autograd/operation.h"
#include "autograd/ops/detail/rows.h"

namespace tapestry {
namespace {

struct LayerNorm {
  static constexpr const char* name = "layer_norm";
  double epsilon;
  Tensor x{}, gamma{};
  Tensor means{}, rstds{};  // of each row

  Tensor forward(const Tensor& input, const Tensor& g, const Tensor& b) {
    const auto [rows, n] = require_rows(name, input);
    x = input;
    gamma = g;
    means = Tensor::empty({rows}, x.dtype());
    rstds = Tensor::empty({rows}, x.dtype());
    Tensor y = Tensor::empty(x.shape(), x.dtype());
    dispatch(x.dtype(), [&, rows = rows, n = n]<class T>() {
      kernels::layer_norm(rows, n, x.values<T>().data(), g.values<T>().data(), b.values<T>().data(),
                          static_cast<T>(epsilon), y.mutable_values<T>().data(),
                          means.mutable_values<T>().data(), rstds.mutable_values<T>().data());
    });
    return y;
  }

  void backward(const Tensor& dy, Gradient dx, Gradient dgamma, Gradient dbeta) const {
    const auto [rows, n] = require_rows(name, dy);
    dispatch(dy.dtype(), [&, rows = rows, n = n]<class T>() {
      // In the order in which the kernel writes them, because two inputs may be the same tensor.
      const kernels::Target<T> to_x = dx.target<T>();
      const kernels::Target<T> to_gamma = dgamma.target<T>();
      const kernels::Target<T> to_beta = dbeta.target<T>();
      kernels::layer_norm_backward(rows, n, x.values<T>().data(), gamma.values<T>().data(),
                                   means.values<T>().data(), rstds.values<T>().data(),
                                   dy.values<T>().data(), to_x, to_gamma, to_beta);
    });
  }
};

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double epsilon) {
  require_rows(LayerNorm::name, x);
  require_last_axis(LayerNorm::name, x, gamma, "gamma");
  require_last_axis(LayerNorm::name, x, beta, "beta");
  require_positive_epsilon(LayerNorm::name, epsilon);
  return apply(LayerNorm{epsilon}, x, gamma, beta);
}

namespace {

struct RmsNorm {
  static constexpr const char* name = "rms_norm";
  double epsilon;
  Tensor x{}, gamma{};
  Tensor rrms{};  // of each row

  Tensor forward(const Tensor& input, const Tensor& g) {
    const auto [rows, n] = require_rows(name, input);
    x = input;
    gamma = g;
    rrms = Tensor::empty({rows}, x.dtype());
    Tensor y = Tensor::empty(x.shape(), x.dtype());
    dispatch(x.dtype(), [&, rows = rows, n = n]<class T>() {
      kernels::rms_norm(rows, n, x.values<T>().data(), g.values<T>().data(),
                        static_cast<T>(epsilon), y.mutable_values<T>().data(),
                        rrms.mutable_values<T>().data());
    });
    return y;
  }

  void backward(const Tensor& dy, Gradient dx, Gradient dgamma) const {
    const auto [rows, n] = require_rows(name, dy);
    dispatch(dy.dtype(), [&, rows = rows, n = n]<class T>() {
      // In the order in which the kernel writes them, because both inputs may be the same tensor.
      const kernels::Target<T> to_x = dx.target<T>();
      const kernels::Target<T> to_gamma = dgamma.target<T>();
      kernels::rms_norm_backward(rows, n, x.values<T>().data(), gamma.values<T>().data(),
                                 rrms.values<T>().data(), dy.values<T>().data(), to_x, to_gamma);
    });
  }
};

}  // namespace

Tensor rms_norm(const Tensor& x, const Tensor& gamma, double epsilon) {
  require_rows(RmsNorm::name, x);
  require_last_axis(RmsNorm::name, x, gamma, "gamma");
  require_positive_epsilon(RmsNorm::name, epsilon);
  return apply(RmsNorm{epsilon}, x, gamma);
}

}  // namespace tapestry
