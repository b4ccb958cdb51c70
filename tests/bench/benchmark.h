// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "autograd/profiler.h"
#include "tests/bench/problems.h"

namespace tapestry::bench {

/// Measurements of one problem.
struct Result {
  std::string problem;
  std::size_t threads = 0;
  double seconds = 0.0;                ///< time of a step, 10th percentile
  double tokens_per_second = 0.0;      ///< target tokens per second
  double flops_per_second = 0.0;       ///< FLOP/s of the steps, see flops_per_step()
  double peak_flops_per_second = 0.0;  ///< FLOP/s of matrix products, see GemmPeak
  std::uint64_t peak_memory = 0;       ///< of the whole process, in bytes
  double page_faults = 0.0;            ///< per step, like the fields below
  double pool_allocations = 0.0;
  double calls_of_new = 0.0;
};

/// Times `steps` >= 1 training steps after a warm-up, on the threads of the kernels. Runs products
/// of OpenBLAS before, between and after the steps for comparison.
Result measure(const Problem& problem, std::size_t steps);

/// Profile of `steps` training steps, after the same warm-up.
Profile profile(const Problem& problem, std::size_t steps);

/// The result as one line of text.
std::string to_line(const Result& result);
/// The result as a JSON object with the names of the fields as keys.
std::string to_json(const Result& result);

}  // namespace tapestry::bench
