// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/ops/norms.h"

#include "autograd/kernels/norms.h"
#include "autograd/operation.h"
#include "autograd/ops/internal/axes.h"

namespace tapestry {
namespace {

struct LayerNorm {
  static constexpr const char* name = "layer_norm";
  static constexpr const char* formula =
      "y = γ x̂ + β, x̂ = (x − mean(x)) / √(var(x) + ε), row by row";
  static constexpr const char* derivative =
      "dL/dx = (g − mean(g) − x̂ · mean(g · x̂)) / √(var(x) + ε), g = γ dL/dy; dL/dγ = Σ dL/dy · "
      "x̂; dL/dβ = Σ dL/dy";
  double epsilon;
  Tensor x{}, weight{};
  Tensor means{}, rstds{};  // mean and 1 / standard deviation of each row

  Tensor forward(const Tensor& input, const Tensor& w, const Tensor& b) {
    const auto [rows, n] = require_rows(name, input);
    x = input;
    weight = w;
    means = Tensor::empty({rows}, x.dtype());
    rstds = Tensor::empty({rows}, x.dtype());
    Tensor y = Tensor::empty(x.shape(), x.dtype());
    dispatch(x.dtype(), [&, rows = rows, n = n]<class T>() {
      kernels::layer_norm(rows, n, x.values<T>().data(), w.values<T>().data(), b.values<T>().data(),
                          static_cast<T>(epsilon), y.mutable_values<T>().data(),
                          means.mutable_values<T>().data(), rstds.mutable_values<T>().data());
    });
    return y;
  }

  void backward(const Tensor& dy, Gradient dx, Gradient dweight, Gradient dbias) const {
    const auto [rows, n] = require_rows(name, dy);
    dispatch(dy.dtype(), [&, rows = rows, n = n]<class T>() {
      // Requests the targets in the order of the kernel's writes, because two inputs may be the
      // same tensor.
      const kernels::Target<T> to_x = dx.target<T>();
      const kernels::Target<T> to_weight = dweight.target<T>();
      const kernels::Target<T> to_bias = dbias.target<T>();
      kernels::layer_norm_backward(rows, n, x.values<T>().data(), weight.values<T>().data(),
                                   means.values<T>().data(), rstds.values<T>().data(),
                                   dy.values<T>().data(), to_x, to_weight, to_bias);
    });
  }
};

struct RmsNorm {
  static constexpr const char* name = "rms_norm";
  static constexpr const char* formula = "y = γ x̂, x̂ = x / √(mean(x²) + ε), row by row";
  static constexpr const char* derivative =
      "dL/dx = (g − x̂ · mean(g · x̂)) / √(mean(x²) + ε), g = γ dL/dy; dL/dγ = Σ dL/dy · x̂";
  double epsilon;
  Tensor x{}, weight{};
  Tensor rrms{};  // 1 / root mean square of each row

  Tensor forward(const Tensor& input, const Tensor& w) {
    const auto [rows, n] = require_rows(name, input);
    x = input;
    weight = w;
    rrms = Tensor::empty({rows}, x.dtype());
    Tensor y = Tensor::empty(x.shape(), x.dtype());
    dispatch(x.dtype(), [&, rows = rows, n = n]<class T>() {
      kernels::rms_norm(rows, n, x.values<T>().data(), w.values<T>().data(),
                        static_cast<T>(epsilon), y.mutable_values<T>().data(),
                        rrms.mutable_values<T>().data());
    });
    return y;
  }

  void backward(const Tensor& dy, Gradient dx, Gradient dweight) const {
    const auto [rows, n] = require_rows(name, dy);
    dispatch(dy.dtype(), [&, rows = rows, n = n]<class T>() {
      // Requests the targets in the order of the kernel's writes, because both inputs may be the
      // same tensor.
      const kernels::Target<T> to_x = dx.target<T>();
      const kernels::Target<T> to_weight = dweight.target<T>();
      kernels::rms_norm_backward(rows, n, x.values<T>().data(), weight.values<T>().data(),
                                 rrms.values<T>().data(), dy.values<T>().data(), to_x, to_weight);
    });
  }
};

FeatureMoments compute_moments(const Tensor& x) {
  const auto [rows, n] = require_rows("batch_norm", x);
  FeatureMoments moments{Tensor::empty({n}, x.dtype()), Tensor::empty({n}, x.dtype())};
  dispatch(x.dtype(), [&, rows = rows, n = n]<class T>() {
    kernels::column_moments(rows, n, x.values<T>().data(), moments.mean.mutable_values<T>().data(),
                            moments.variance.mutable_values<T>().data());
  });
  return moments;
}

/// Code that both operations share: normalization with given moments, and the gradients.
struct Normalization {
  double epsilon;
  Tensor x{}, weight{};
  FeatureMoments moments{};

  Tensor forward(const Tensor& input, const Tensor& w, const Tensor& b) {
    const auto [rows, n] = require_rows("batch_norm", input);
    x = input;
    weight = w;
    Tensor y = Tensor::empty(x.shape(), x.dtype());
    dispatch(x.dtype(), [&, rows = rows, n = n]<class T>() {
      kernels::batch_norm(rows, n, x.values<T>().data(), moments.mean.values<T>().data(),
                          moments.variance.values<T>().data(), w.values<T>().data(),
                          b.values<T>().data(), static_cast<T>(epsilon),
                          y.mutable_values<T>().data());
    });
    return y;
  }

  void backward(kernels::Moments kind, const Tensor& dy, const Gradient& dx,
                const Gradient& dweight, const Gradient& dbias) const {
    const auto [rows, n] = require_rows("batch_norm", dy);
    dispatch(dy.dtype(), [&, rows = rows, n = n]<class T>() {
      // Requests the targets in the order of the kernel's writes, because two inputs may be the
      // same tensor.
      const kernels::Target<T> to_weight = dweight.target<T>();
      const kernels::Target<T> to_bias = dbias.target<T>();
      const kernels::Target<T> to_x = dx.target<T>();
      kernels::batch_norm_backward(
          kind, rows, n, x.values<T>().data(), moments.mean.values<T>().data(),
          moments.variance.values<T>().data(), weight.values<T>().data(), static_cast<T>(epsilon),
          dy.values<T>().data(), to_x, to_weight, to_bias);
    });
  }
};

struct BatchNorm {
  static constexpr const char* name = "batch_norm";
  static constexpr const char* formula =
      "y = γ x̂ + β, x̂ = (x − mean(x)) / √(var(x) + ε), channel by channel over the batch";
  static constexpr const char* derivative =
      "dL/dx = (g − mean(g) − x̂ · mean(g · x̂)) / √(var(x) + ε), g = γ dL/dy; dL/dγ = Σ dL/dy · "
      "x̂; dL/dβ = Σ dL/dy";
  Normalization normalization;
  using Result = FeatureMoments;
  Result result{};

  Tensor forward(const Tensor& x, const Tensor& weight, const Tensor& bias) {
    if (x.size() == 0) {
      normalization.moments = {Tensor::zeros(weight.shape(), x.dtype()),
                               Tensor::zeros(weight.shape(), x.dtype())};
    } else {
      normalization.moments = compute_moments(x);
    }
    result = normalization.moments;
    return normalization.forward(x, weight, bias);
  }

  void backward(const Tensor& dy, Gradient dx, Gradient dweight, Gradient dbias) const {
    normalization.backward(kernels::Moments::from_x, dy, dx, dweight, dbias);
  }
};

struct BatchNormGiven {
  static constexpr const char* name = "batch_norm_given";
  static constexpr const char* formula =
      "y = γ x̂ + β, x̂ = (x − running mean) / √(running variance + ε)";
  static constexpr const char* derivative =
      "dL/dx = γ dL/dy / √(running variance + ε); dL/dγ = Σ dL/dy · x̂; dL/dβ = Σ dL/dy";
  Normalization normalization;

  Tensor forward(const Tensor& x, const Tensor& weight, const Tensor& bias) {
    return normalization.forward(x, weight, bias);
  }

  void backward(const Tensor& dy, Gradient dx, Gradient dweight, Gradient dbias) const {
    normalization.backward(kernels::Moments::given, dy, dx, dweight, dbias);
  }
};

void require_fitting(const char* operation, const Tensor& x, const Tensor& weight,
                     const Tensor& bias, double epsilon) {
  require_rows(operation, x);
  require_last_axis(operation, x, weight, "weight");
  require_last_axis(operation, x, bias, "bias");
  require_positive_epsilon(operation, epsilon);
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon) {
  require_fitting(LayerNorm::name, x, weight, bias, epsilon);
  return apply(LayerNorm{epsilon}, x, weight, bias);
}

Tensor rms_norm(const Tensor& x, const Tensor& weight, double epsilon) {
  require_rows(RmsNorm::name, x);
  require_last_axis(RmsNorm::name, x, weight, "weight");
  require_positive_epsilon(RmsNorm::name, epsilon);
  return apply(RmsNorm{epsilon}, x, weight);
}

BatchNormOutput batch_norm_with_moments(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                        double epsilon) {
  require_fitting(BatchNorm::name, x, weight, bias, epsilon);
  auto [y, moments] = apply(BatchNorm{{.epsilon = epsilon}}, x, weight, bias);
  return {.y = std::move(y), .moments = std::move(moments)};
}

Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon) {
  return batch_norm_with_moments(x, weight, bias, epsilon).y;
}

Tensor batch_norm_given(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const FeatureMoments& moments, double epsilon) {
  require_fitting(BatchNormGiven::name, x, weight, bias, epsilon);
  require_last_axis(BatchNormGiven::name, x, moments.mean, "the mean");
  require_last_axis(BatchNormGiven::name, x, moments.variance, "the variance");
  return apply(BatchNormGiven{{.epsilon = epsilon, .moments = moments}}, x, weight, bias);
}

}  // namespace tapestry
