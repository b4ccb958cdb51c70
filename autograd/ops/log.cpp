#include "autograd/ops/log.h"

#include <limits>
#include <numbers>

#include "autograd/operation.h"
#include "autograd/ops/elementwise.h"

namespace tapestry {
namespace {

/// xsimd 8.1 is exact to 0.7 epsilons, but takes float64 values below the normal range wrongly:
/// those are lifted out of it.
constexpr auto logarithm = []<class T>(const kernels::Vec<T>& v) {
  using V = kernels::Vec<T>;
  constexpr int lift = 54;
  const auto subnormal = v < V(std::numeric_limits<T>::min());
  const V lifted = xsimd::select(subnormal, v * V(static_cast<T>(1LL << lift)), v);
  const V excess = xsimd::select(subnormal, V(static_cast<T>(lift * std::numbers::ln2)), V(T(0)));
  return V(xsimd::log(lifted) - excess);
};

struct Log {
  static constexpr const char* name = "log";
  Tensor x{};

  Tensor forward(const Tensor& input) {
    x = input;
    return map_values(logarithm, x);
  }

  void backward(const Tensor& dy, Gradient dx) const {
    map_gradient(
        dx, [](const auto& g, const auto& v) { return g / v; }, dy, x);
  }
};

}  // namespace

Tensor log(const Tensor& x) { return apply(Log{}, x); }

}  // namespace tapestry
