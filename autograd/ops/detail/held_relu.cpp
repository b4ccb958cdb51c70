#include "autograd/ops/detail/held_relu.h"

#include "autograd/kernels/activations.h"
#include "autograd/ops/detail/elementwise.h"

namespace tapestry {
namespace {

constexpr std::int32_t zero = 0, identity = 1;

}  // namespace

Tensor held_relu(Pieces& pieces, const Tensor& x) {
  Tensor y = map_values([](const auto& v) { return kernels::relu(v); }, x);
  dispatch(x.dtype(), [&]<class T>() {
    const auto in = x.values<T>();
    const auto out = y.mutable_values<T>();
    const auto pieces_of_x = pieces.next("relu", in.size(), [&](std::size_t i) {
      return in[i] > T(0) ? identity : in[i] < T(0) ? zero : Pieces::at_a_kink;
    });
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (pieces_of_x[i] == identity) out[i] = in[i];
      if (pieces_of_x[i] == zero) out[i] = T(0);
    }
  });
  return y;
}

}  // namespace tapestry
