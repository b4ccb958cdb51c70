#include "autograd/ops/scale.h"

#include "autograd/operation.h"
#include "autograd/ops/elementwise.h"

namespace tapestry {
namespace {

struct Scale {
  static constexpr const char* name = "scale";
  double factor;

  template <class T>
  kernels::Vec<T> operator()(const kernels::Vec<T>& v) const {
    return v * kernels::Vec<T>(static_cast<T>(factor));
  }

  Tensor forward(const Tensor& x) { return map_values(*this, x); }
  void backward(const Tensor& dy, Gradient dx) const { map_gradient(dx, *this, dy); }
};

}  // namespace

Tensor scale(const Tensor& x, double factor) { return apply(Scale{factor}, x); }

}  // namespace tapestry
