#include "autograd/ops/norms.h"

#include "autograd/kernels/batch_norm.h"
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

FeatureMoments compute_moments(const Tensor& x) {
  const auto [rows, n] = require_rows("batch_norm", x);
  FeatureMoments moments{Tensor::empty({n}, x.dtype()), Tensor::empty({n}, x.dtype())};
  dispatch(x.dtype(), [&, rows = rows, n = n]<class T>() {
    kernels::column_moments(rows, n, x.values<T>().data(), moments.mean.mutable_values<T>().data(),
                            moments.variance.mutable_values<T>().data());
  });
  return moments;
}

/// Shared by both operations: normalization with given moments, and the gradients.
struct Normalization {
  double epsilon;
  Tensor x{}, gamma{};
  FeatureMoments moments{};

  Tensor forward(const Tensor& input, const Tensor& g, const Tensor& b) {
    const auto [rows, n] = require_rows("batch_norm", input);
    x = input;
    gamma = g;
    Tensor y = Tensor::empty(x.shape(), x.dtype());
    dispatch(x.dtype(), [&, rows = rows, n = n]<class T>() {
      kernels::batch_norm(rows, n, x.values<T>().data(), moments.mean.values<T>().data(),
                          moments.variance.values<T>().data(), g.values<T>().data(),
                          b.values<T>().data(), static_cast<T>(epsilon),
                          y.mutable_values<T>().data());
    });
    return y;
  }

  void backward(kernels::Moments kind, const Tensor& dy, const Gradient& dx, const Gradient& dgamma,
                const Gradient& dbeta) const {
    const auto [rows, n] = require_rows("batch_norm", dy);
    dispatch(dy.dtype(), [&, rows = rows, n = n]<class T>() {
      // In the order in which the kernel writes them, because two inputs may be the same tensor.
      const kernels::Target<T> to_gamma = dgamma.target<T>();
      const kernels::Target<T> to_beta = dbeta.target<T>();
      const kernels::Target<T> to_x = dx.target<T>();
      kernels::batch_norm_backward(
          kind, rows, n, x.values<T>().data(), moments.mean.values<T>().data(),
          moments.variance.values<T>().data(), gamma.values<T>().data(), static_cast<T>(epsilon),
          dy.values<T>().data(), to_x, to_gamma, to_beta);
    });
  }
};

struct BatchNorm {
  static constexpr const char* name = "batch_norm";
  Normalization normalization;
  using Result = FeatureMoments;
  Result result{};

  Tensor forward(const Tensor& x, const Tensor& gamma, const Tensor& beta) {
    if (x.size() == 0) {
      normalization.moments = {Tensor::zeros(gamma.shape(), x.dtype()),
                               Tensor::zeros(gamma.shape(), x.dtype())};
    } else {
      normalization.moments = compute_moments(x);
    }
    result = normalization.moments;
    return normalization.forward(x, gamma, beta);
  }

  void backward(const Tensor& dy, Gradient dx, Gradient dgamma, Gradient dbeta) const {
    normalization.backward(kernels::Moments::from_x, dy, dx, dgamma, dbeta);
  }
};

struct BatchNormGiven {
  static constexpr const char* name = "batch_norm_given";
  Normalization normalization;

  Tensor forward(const Tensor& x, const Tensor& gamma, const Tensor& beta) {
    return normalization.forward(x, gamma, beta);
  }

  void backward(const Tensor& dy, Gradient dx, Gradient dgamma, Gradient dbeta) const {
    normalization.backward(kernels::Moments::given, dy, dx, dgamma, dbeta);
  }
};

void require_fitting(const char* operation, const Tensor& x, const Tensor& gamma,
                     const Tensor& beta, double epsilon) {
  require_rows(operation, x);
  require_last_axis(operation, x, gamma, "gamma");
  require_last_axis(operation, x, beta, "beta");
  require_positive_epsilon(operation, epsilon);
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double epsilon) {
  require_rows(LayerNorm::name, x);
  require_last_axis(LayerNorm::name, x, gamma, "gamma");
  require_last_axis(LayerNorm::name, x, beta, "beta");
  require_positive_epsilon(LayerNorm::name, epsilon);
  return apply(LayerNorm{epsilon}, x, gamma, beta);
}

Tensor rms_norm(const Tensor& x, const Tensor& gamma, double epsilon) {
  require_rows(RmsNorm::name, x);
  require_last_axis(RmsNorm::name, x, gamma, "gamma");
  require_positive_epsilon(RmsNorm::name, epsilon);
  return apply(RmsNorm{epsilon}, x, gamma);
}

BatchNormOutput batch_norm_with_moments(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                                        double epsilon) {
  require_fitting(BatchNorm::name, x, gamma, beta, epsilon);
  auto [y, moments] = apply(BatchNorm{{.epsilon = epsilon}}, x, gamma, beta);
  return {.y = std::move(y), .moments = std::move(moments)};
}

Tensor batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double epsilon) {
  return batch_norm_with_moments(x, gamma, beta, epsilon).y;
}

Tensor batch_norm_given(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                        const FeatureMoments& moments, double epsilon) {
  require_fitting(BatchNormGiven::name, x, gamma, beta, epsilon);
  require_last_axis(BatchNormGiven::name, x, moments.mean, "the mean");
  require_last_axis(BatchNormGiven::name, x, moments.variance, "the variance");
  return apply(BatchNormGiven{{.epsilon = epsilon, .moments = moments}}, x, gamma, beta);
}

}  // namespace tapestry
