#pragma once

#include <cstddef>

#include "autograd/kernels/parallel.h"

namespace tapestry {

/// Number of threads that operations use from now on; 0 means one for each core that this process
/// may run on, which is the default. The number never changes a result, only the time it takes.
inline void set_num_threads(std::size_t threads) { kernels::set_num_threads(threads); }
inline std::size_t num_threads() { return kernels::num_threads(); }

}  // namespace tapestry
