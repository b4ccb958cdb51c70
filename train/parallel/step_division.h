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
  /// 2 (p - 1) / p times the gradient: what a process sends at least.
  std::uint64_t least_sent = 0;
  /// Share of the time of gradients that processes wait for those with more micro-batches, [0, 1).
  double idle_share = 0.0;
  /// The time of a step without exchange, and as a multiple of the speed of one process.
  double seconds = 0.0, speedup = 0.0;
};

/// gradient_bytes  size of the gradient of all parameters
/// gradients       seconds of forward and backward of all micro-batches, in one process
/// others          seconds of the rest of a step, counted for each process: an upper bound, since a
///                 process updates its shard of the parameters alone
/// throws          std::invalid_argument unless 1 <= processes <= micro_batches.
StepDivision divide_step(std::size_t processes, std::size_t micro_batches,
                         std::uint64_t gradient_bytes, double gradients, double others);

}  // namespace tapestry
