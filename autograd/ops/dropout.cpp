#include "autograd/ops/dropout.h"

#include <fmt/format.h>

#include "autograd/error.h"
#include "autograd/kernels/dropout.h"
#include "autograd/kernels/parallel.h"
#include "autograd/operation.h"
#include "autograd/ops/activations.h"
#include "autograd/ops/detail/dropping.h"
#include "autograd/ops/detail/elementwise.h"
#include "autograd/ops/elementwise.h"

namespace tapestry {
namespace {

struct Dropout {
  static constexpr const char* name = "dropout";
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

}  // namespace

Tensor dropout(const Tensor& x, double rate, const RandomStream& random) {
  if (!drops_anything(Dropout::name, rate, random)) return x;
  return apply(Dropout{random.key(), rate}, x);
}

namespace {

struct DropoutAdd {
  static constexpr const char* name = "dropout_add";
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

}  // namespace

Tensor dropout_add(const Tensor& residual, const Tensor& x, double rate,
                   const RandomStream& random) {
  common_dtype(DropoutAdd::name, residual, x);
  if (residual.shape() != x.shape()) {
    throw ShapeError(fmt::format("{}: residual has shape {} and x {}, expected one shape",
                                 DropoutAdd::name, to_string(residual.shape()),
                                 to_string(x.shape())));
  }
  if (!drops_anything(DropoutAdd::name, rate, random)) return add(residual, x);
  return apply(DropoutAdd{random.key(), rate}, residual, x);
}

namespace {

struct ReluDropout {
  static constexpr const char* name = "relu_dropout";
  std::uint64_t key;
  double rate;
  Tensor y{};

  Tensor forward(const Tensor& x) {
    y = Tensor::empty(x.shape(), x.dtype());
    dispatch(x.dtype(), [&]<class T>() {
      if (FrozenBranches* const branches = FrozenBranches::active()) {
        const kernels::Target<T> to_y{y.mutable_values<T>().data()};
        return drop(key, rate, frozen_relu(*branches, x), to_y);
      }
      const T* in = x.values<T>().data();
      T* out = y.mutable_values<T>().data();
      kernels::parallel_ranges(
          x.size(), kernels::elements_per_piece, [&](std::size_t begin, std::size_t end) {
            kernels::relu_dropout(key, begin, end - begin, rate, in + begin, out + begin);
          });
    });
    return y;
  }

  void backward(const Tensor& dy, Gradient dx) const {
    const double scale = kernels::dropout_scale(rate);
    const auto gradient = [scale]<class V>(const V& g, const V& value) {
      const V kept = g * V(static_cast<typename V::value_type>(scale));
      return xsimd::select(value <= V(0), V(0), kept);
    };
    map_gradient(dx, gradient, dy, y);
  }
};

}  // namespace

Tensor relu_dropout(const Tensor& x, double rate, const RandomStream& random) {
  if (!drops_anything(ReluDropout::name, rate, random)) return relu(x);
  return apply(ReluDropout{random.key(), rate}, x);
}

}  // namespace tapestry
