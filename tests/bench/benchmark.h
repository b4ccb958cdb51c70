#pragma once

#include <cstddef>

#include "autograd/profiler.h"
#include "tests/bench/problems.h"
#include "tests/bench/result.h"

namespace tapestry::bench {

/// Times `steps` >= 1 training steps after a warm-up, on as many threads as the kernels use, with
/// products of OpenBLAS before, between and after them for comparison.
Result measure(const Problem& problem, std::size_t steps);

/// Where the time of so many steps goes, after the same warm-up.
Profile profile(const Problem& problem, std::size_t steps);

}  // namespace tapestry::bench
