#include "autograd/ops/swiglu.h"

#include "autograd/operation.h"
#include "autograd/ops/gated.h"

namespace tapestry {
namespace {

struct Swiglu {
  static constexpr const char* name = "swiglu";
  Tensor x{};

  Tensor forward(const Tensor& input) {
    x = input;
    return gated_values(kernels::Gate::silu, x);
  }

  void backward(const Tensor& dy, Gradient dx) const {
    gated_gradient(kernels::Gate::silu, dy, x, dx);
  }
};

}  // namespace

Tensor swiglu(const Tensor& x) {
  require_halves(Swiglu::name, x);
  return apply(Swiglu{}, x);
}

}  // namespace tapestry
