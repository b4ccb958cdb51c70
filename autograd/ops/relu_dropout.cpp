#include "autograd/ops/relu_dropout.h"

#include "autograd/kernels/dropout.h"
#include "autograd/kernels/parallel.h"
#include "autograd/operation.h"
#include "autograd/ops/dropping.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/held_relu.h"
#include "autograd/ops/relu.h"

namespace tapestry {
namespace {

struct ReluDropout {
  static constexpr const char* name = "relu_dropout";
  std::uint64_t key;
  double rate;
  Tensor y{};

  Tensor forward(const Tensor& x) {
    y = Tensor::empty(x.shape(), x.dtype());
    dispatch(x.dtype(), [&]<class T>() {
      if (Pieces* const pieces = Pieces::active()) {
        const kernels::Target<T> to_y{y.mutable_values<T>().data()};
        return drop(key, rate, held_relu(*pieces, x), to_y);
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
