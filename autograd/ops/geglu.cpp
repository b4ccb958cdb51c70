#include "autograd/ops/geglu.h"

#include "autograd/operation.h"
#include "autograd/ops/gated.h"

namespace tapestry {
namespace {

struct Geglu {
  static constexpr const char* name = "geglu";
  Tensor x{};

  Tensor forward(const Tensor& input) {
    x = input;
    return gated_values(kernels::Gate::gelu, x);
  }

  void backward(const Tensor& dy, Gradient dx) const {
    gated_gradient(kernels::Gate::gelu, dy, x, dx);
  }
};

}  // namespace

Tensor geglu(const Tensor& x) {
  require_halves(Geglu::name, x);
  return apply(Geglu{}, x);
}

}  // namespace tapestry
