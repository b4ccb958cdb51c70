// SPDX-License-Identifier: BSD-3-Clause
#include "layers/model.h"

#include <algorithm>

namespace tapestry {

Model::Model(const MakeNetwork& make_network, DType dtype, std::uint64_t seed)
    : parameters(dtype, seed), network(make_network(Scope(parameters))) {
  parameters.gather();
}

Model::Model(const MakeNetwork& make_network, DType dtype)
    : parameters(Parameters::with_zeros(dtype)), network(make_network(Scope(parameters))) {
  parameters.gather();
}

ValueCount count_values(const MakeNetwork& make_network) {
  Parameters parameters = Parameters::without_values(DType::float32);
  make_network(Scope(parameters));
  return {.parameters = parameters.num_values(), .constants = parameters.num_constants()};
}

void copy_values(const Tensor& from, Tensor to) {
  const Tensor converted = from.detach().to(to.dtype());
  dispatch(to.dtype(), [&]<class T>() {
    std::ranges::copy(converted.values<T>(), to.mutable_values<T>().begin());
  });
}

}  // namespace tapestry
