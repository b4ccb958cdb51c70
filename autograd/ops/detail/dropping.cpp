#include "autograd/ops/detail/dropping.h"

#include <fmt/format.h>

#include "autograd/error.h"
#include "autograd/kernels/dropout.h"
#include "autograd/kernels/parallel.h"

namespace tapestry {

bool drops_anything(const char* operation, double rate, const RandomStream& random) {
  if (!(rate >= 0.0 && rate <= 1.0)) {
    throw ValueError(fmt::format("{}: the rate is {}, expected 0 to 1", operation, rate));
  }
  return rate > 0.0 && random.on();
}

template <class T>
void drop(std::uint64_t key, double rate, const Tensor& x, kernels::Target<T> y) {
  static_assert(kernels::elements_per_piece % kernels::dropout_group == 0);
  const T* in = x.values<T>().data();
  kernels::parallel_ranges(x.size(), kernels::elements_per_piece,
                           [&](std::size_t begin, std::size_t end) {
                             kernels::dropout(key, begin, end - begin, rate, in + begin, y + begin);
                           });
}

template void drop(std::uint64_t, double, const Tensor&, kernels::Target<float>);
template void drop(std::uint64_t, double, const Tensor&, kernels::Target<double>);

}  // namespace tapestry
