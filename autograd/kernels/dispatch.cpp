// SPDX-License-Identifier: BSD-3-Clause
#include <type_traits>

#include "autograd/kernels/registry.h"

/// Each kernel calls the function of the set in use.
namespace tapestry::kernels::inline in_use {
namespace {

template <class T>
const KernelsOf<T>& functions() {
  if constexpr (std::is_same_v<T, float>) {
    return table_in_use.of_float;
  } else {
    return table_in_use.of_double;
  }
}

}  // namespace

#define TAPESTRY_DEFINE(T, Result, name, parameters, arguments) \
  template <class T>                                            \
  Result name parameters {                                      \
    return functions<T>().name arguments;                       \
  }
TAPESTRY_KERNELS_OF(T, TAPESTRY_DEFINE)
#undef TAPESTRY_DEFINE

#define TAPESTRY_DEFINE(Result, name, parameters, arguments) \
  Result name parameters { return table_in_use.name arguments; }
TAPESTRY_PLAIN_KERNELS(TAPESTRY_DEFINE)
#undef TAPESTRY_DEFINE

#define TAPESTRY_INSTANTIATE(T, Result, name, parameters, arguments) \
  template Result name parameters;
TAPESTRY_KERNELS_OF(float, TAPESTRY_INSTANTIATE)
TAPESTRY_KERNELS_OF(double, TAPESTRY_INSTANTIATE)
#undef TAPESTRY_INSTANTIATE

}  // namespace tapestry::kernels::inline in_use

namespace tapestry::kernels {

template <class T>
PackedOperand<T>::PackedOperand(std::size_t k, std::size_t n, Operand<T> b)
    : k_(k), n_(n), b_(b), memory_(pack_operand(k, n, b)) {}

template class PackedOperand<float>;
template class PackedOperand<double>;

}  // namespace tapestry::kernels
