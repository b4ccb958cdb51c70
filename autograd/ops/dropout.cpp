#include "autograd/ops/dropout.h"

#include "autograd/operation.h"
#include "autograd/ops/dropping.h"

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
    dispatch(dy.dtype(), [&]<class T>() { drop(key, rate, dy, dx.target<T>()); });
  }
};

}  // namespace

Tensor dropout(const Tensor& x, double rate, const RandomStream& random) {
  if (!drops_anything(Dropout::name, rate, random)) return x;
  return apply(Dropout{random.key(), rate}, x);
}

}  // namespace tapestry
