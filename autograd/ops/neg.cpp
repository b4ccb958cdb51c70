#include "autograd/ops/neg.h"

#include "autograd/operation.h"
#include "autograd/ops/elementwise.h"

namespace tapestry {
namespace {

/// A product, because xsimd 8.1 computes -v as 0 - v, which takes 0 to 0 instead of -0.
constexpr auto negated = []<class V>(const V& v) { return v * V(-1); };

struct Neg {
  static constexpr const char* name = "neg";

  Tensor forward(const Tensor& x) { return map_values(negated, x); }
  void backward(const Tensor& dy, Gradient dx) const { map_gradient(dx, negated, dy); }
};

}  // namespace

Tensor neg(const Tensor& x) { return apply(Neg{}, x); }

}  // namespace tapestry
