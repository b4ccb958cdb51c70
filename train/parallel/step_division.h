#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tapestry {

/// How the processes of a parallel run divide a step.
struct StepDivision {
  std::vector<std::size_t> micro_batches;  ///< of each process
  /// What the process that sends most sends in each step, and all processes together, in bytes.
  std::uint64_t most_sent = 0, all_sent = 0;
  /// (p - 1) / p times parameters and gradients: what a process sends at least.
  std::uint64_t least_sent = 0;
  /// Share of the time of gradients that processes wait for those with more micro-batches, [0, 1).
  double idle_share = 0.0;
};

/// parameter_bytes  size of all parameters
/// gradient_bytes   of their gradients as processes exchange them
/// throws           std::invalid_argument unless 1 <= processes <= micro_batches.
StepDivision divide_step(std::size_t processes, std::size_t micro_batches,
                         std::uint64_t parameter_bytes, std::uint64_t gradient_bytes);

}  // namespace tapestry
