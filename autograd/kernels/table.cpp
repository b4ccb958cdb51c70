// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/kernels/registry.h"

namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE {
namespace {

#define TAPESTRY_ADDRESS(T, Result, name, parameters, arguments) .name = &name<T>,
template <class T>
constexpr KernelsOf<T> functions{TAPESTRY_KERNELS_OF(T, TAPESTRY_ADDRESS)};
#undef TAPESTRY_ADDRESS

}  // namespace

extern const KernelTable table;

#define TAPESTRY_ADDRESS(Result, name, parameters, arguments) .name = &name,
constinit const KernelTable table{.of_float = functions<float>,
                                  .of_double = functions<double>,
                                  TAPESTRY_PLAIN_KERNELS(TAPESTRY_ADDRESS)};
#undef TAPESTRY_ADDRESS

}  // namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE
