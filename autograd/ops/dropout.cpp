// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/ops/dropout.h"

#include <fmt/format.h>

#include "autograd/error.h"
#include "autograd/kernels/dropout.h"
#include "autograd/kernels/parallel.h"
#include "autograd/operation.h"
#include "autograd/ops/activations.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/internal/elementwise.h"

namespace tapestry {
namespace {

/// False if dropout changes nothing: at rate 0, or with a stream that is off. Throws ValueError,
/// naming `operation`, unless 0 <= rate <= 1.
bool drops_anything(const char* operation, double rate, const RandomStream& random) {
  if (!(rate >= 0.0 && rate <= 1.0)) {
    throw ValueError(
        fmt::format("{}: the rate is {}, expected 0 to 1", operation, printable(rate)));
  }
  return rate > 0.0 && random.on();
}

/// Throws DTypeError or ShapeError, naming `operation`, unless residual and x have the same type
/// and shape.
void require_matching(const char* operation, const Tensor& residual, const Tensor& x) {
  common_dtype(operation, residual, x);
  if (residual.shape() == x.shape()) return;
  throw ShapeError(fmt::format("{}: residual has shape {} and x {}, expected equal shapes",
                               operation, to_string(residual.shape()), to_string(x.shape())));
}

/// y = dropout(x) on all threads, with random numbers of the stream that has this key.
template <class T>
void drop(std::uint64_t key, double rate, const Tensor& x, kernels::Target<T> y) {
  static_assert(kernels::elements_per_piece % kernels::dropout_group == 0);
  const T* in = x.values<T>().data();
  kernels::parallel_ranges(x.size(), kernels::elements_per_piece,
                           [&](std::size_t begin, std::size_t end) {
                             kernels::dropout(key, begin, end - begin, rate, in + begin, y + begin);
                           });
}

struct Dropout {
  static constexpr const char* name = "dropout";
  static constexpr const char* formula =
      "y = x · keep / (1 − p), keep is 0 with probability p, else 1";
  static constexpr const char* derivative = "dL/dx = dL/dy · keep / (1 − p)";
  std::uint64_t key;
  double rate;

  Tensor forward(const Tensor& x) {
    Tensor y = Tensor::empty(x.shape(), x.dtype());
    dispatch(x.dtype(), [&]<class T>() {
      drop(key, rate, x, kernels::Target<T>{y.mutable_values<T>().data()});
    });
    return y;
  }

  void backward(const Tensor& dy, Gradient dx) const {
    dispatch(dy.dtype(), [&]<class T>() {
      const kernels::Target<T> to_x = dx.target<T>();
      drop(key, rate, dy, to_x);
    });
  }
};

struct DropoutAdd {
  static constexpr const char* name = "dropout_add";
  static constexpr const char* formula =
      "y = x + f · keep / (1 − p), keep is 0 with probability p, else 1";
  static constexpr const char* derivative = "dL/dx = dL/dy, dL/df = dL/dy · keep / (1 − p)";
  std::uint64_t key;
  double rate;

  Tensor forward(const Tensor& residual, const Tensor& x) {
    Tensor y = Tensor::empty(x.shape(), x.dtype());
    dispatch(x.dtype(), [&]<class T>() {
      const T* r = residual.values<T>().data();
      const T* in = x.values<T>().data();
      T* out = y.mutable_values<T>().data();
      kernels::parallel_ranges(
          x.size(), kernels::elements_per_piece, [&](std::size_t begin, std::size_t end) {
            kernels::dropout_add(key, begin, end - begin, rate, r + begin, in + begin, out + begin);
          });
    });
    return y;
  }

  void backward(const Tensor& dy, Gradient dresidual, Gradient dx) const {
    if (dresidual) dresidual.add(dy);
    if (!dx) return;
    dispatch(dy.dtype(), [&]<class T>() { drop(key, rate, dy, dx.target<T>()); });
  }
};

struct ReluDropout {
  static constexpr const char* name = "relu_dropout";
  static constexpr const char* formula =
      "y = max(x, 0) · keep / (1 − p), keep is 0 with probability p, else 1";
  static constexpr const char* derivative = "dL/dx = dL/dy · keep / (1 − p) where x > 0, else 0";
  std::uint64_t key;
  double rate;
  Tensor y{};

  Tensor forward(const Tensor& x) {
    y = Tensor::empty(x.shape(), x.dtype());
    dispatch(x.dtype(), [&]<class T>() {
      const T* in = x.values<T>().data();
      T* out = y.mutable_values<T>().data();
      kernels::parallel_ranges(
          x.size(), kernels::elements_per_piece, [&](std::size_t begin, std::size_t end) {
            kernels::relu_dropout(key, begin, end - begin, rate, in + begin, out + begin);
          });
    });
    return y;
  }

  void freeze(FrozenBranches& branches, Tensor& output, const Tensor& x) const {
    Tensor kept = map_values(kernels::Unary::relu, x);
    freeze_relu(branches, kept, x);
    dispatch(x.dtype(), [&]<class T>() {
      drop(key, rate, kept, kernels::Target<T>{output.mutable_values<T>().data()});
    });
  }

  void backward(const Tensor& dy, Gradient dx) const {
    const double scale = kernels::dropout_scale(rate);
    map_gradient(dx, kernels::Function{kernels::Binary::relu_scale_gradient, scale}, dy, y);
  }
};

struct ResidualAdd {
  static constexpr const char* name = "residual_add";
  static constexpr const char* formula =
      "y = skip_scale · x + sublayer_scale · f · keep / (1 − p), keep is 0 with probability p, "
      "else 1";
  static constexpr const char* derivative =
      "dL/dx = skip_scale · dL/dy, dL/df = sublayer_scale · dL/dy · keep / (1 − p)";
  std::uint64_t key;
  double rate, skip;
  Tensor row_factors;

  template <class T>
  kernels::RowFactors<T> rows(const Tensor& x) const {
    return {row_factors.values<T>().data(), x.size() / row_factors.size()};
  }

  Tensor forward(const Tensor& residual, const Tensor& x) {
    Tensor y = Tensor::empty(x.shape(), x.dtype());
    if (x.size() == 0) return y;
    dispatch(x.dtype(), [&]<class T>() {
      const T* r = residual.values<T>().data();
      const T* in = x.values<T>().data();
      T* out = y.mutable_values<T>().data();
      kernels::parallel_ranges(
          x.size(), kernels::elements_per_piece, [&](std::size_t begin, std::size_t end) {
            kernels::residual_add<T>(key, begin, end - begin, rate, static_cast<T>(skip),
                                     rows<T>(x), r + begin, in + begin, out + begin);
          });
    });
    return y;
  }

  void backward(const Tensor& dy, Gradient dresidual, Gradient dx) const {
    if (dresidual && skip == 1.0) dresidual.add(dy);
    if (dresidual && skip != 1.0) {
      map_gradient(dresidual, kernels::Function{kernels::Unary::scale, skip}, dy);
    }
    if (!dx) return;
    dispatch(dy.dtype(), [&]<class T>() {
      const kernels::Target<T> to = dx.target<T>();
      if (dy.size() == 0) return;
      const T* g = dy.values<T>().data();
      kernels::parallel_ranges(
          dy.size(), kernels::elements_per_piece, [&](std::size_t begin, std::size_t end) {
            kernels::residual_add_backward<T>(key, begin, end - begin, rate, rows<T>(dy), g + begin,
                                              to + begin);
          });
    });
  }
};

/// The factor of each row of x: sublayer_scale times the k of stochastic depth.
Tensor make_row_factors(const Tensor& x, const ResidualAddOptions& options) {
  const std::size_t rows = x.rank() == 0 ? 1 : x.shape()[0];
  Tensor factors = Tensor::full({rows}, options.sublayer_scale, x.dtype());
  if (!options.depth_random.on() || options.stochastic_depth == 0.0) return factors;
  const double kept = options.sublayer_scale / (1.0 - options.stochastic_depth);
  dispatch(x.dtype(), [&]<class T>() {
    const auto values = factors.mutable_values<T>();
    for (std::size_t row = 0; row < rows; ++row) {
      const bool dropped = options.depth_random.uniform(row) < options.stochastic_depth;
      values[row] = dropped ? T(0) : static_cast<T>(kept);
    }
  });
  return factors;
}

}  // namespace

Tensor dropout(const Tensor& x, double rate, const RandomStream& random) {
  if (!drops_anything(Dropout::name, rate, random)) return x;
  return apply(Dropout{random.key(), rate}, x);
}

Tensor dropout_add(const Tensor& residual, const Tensor& x, double rate,
                   const RandomStream& random) {
  require_matching(DropoutAdd::name, residual, x);
  if (!drops_anything(DropoutAdd::name, rate, random)) return add(residual, x);
  return apply(DropoutAdd{random.key(), rate}, residual, x);
}

Tensor relu_dropout(const Tensor& x, double rate, const RandomStream& random) {
  if (!drops_anything(ReluDropout::name, rate, random)) return relu(x);
  return apply(ReluDropout{random.key(), rate}, x);
}

Tensor residual_add(const Tensor& residual, const Tensor& x, const ResidualAddOptions& options) {
  const bool drops_rows =
      drops_anything(ResidualAdd::name, options.stochastic_depth, options.depth_random);
  if (options.skip_scale == 1.0 && options.sublayer_scale == 1.0 && !drops_rows) {
    return dropout_add(residual, x, options.dropout, options.random);
  }
  require_matching(ResidualAdd::name, residual, x);
  const bool drops = drops_anything(ResidualAdd::name, options.dropout, options.random);
  return apply(ResidualAdd{.key = drops ? options.random.key() : 0,
                           .rate = drops ? options.dropout : 0.0,
                           .skip = options.skip_scale,
                           .row_factors = make_row_factors(x, options)},
               residual, x);
}

}  // namespace tapestry
