// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <vector>

namespace tapestry::bench {

/// Speed that OpenBLAS reaches in a product of two single-precision matrices, 1024 x 1024 each, on
/// these threads: the peak for comparison with a training step. Measured in several short runs
/// between the steps, so that both run under the same conditions.
class GemmPeak {
 public:
  explicit GemmPeak(std::size_t threads);

  /// Times a few products. OpenBLAS uses all threads during this, and one thread afterwards, as the
  /// kernels require.
  void measure();

  /// FLOP/s, by the 10th percentile of all times.
  double flops_per_second() const;

 private:
  std::size_t threads_;
  std::vector<float> a_, b_, c_;
  std::vector<double> times_;
};

}  // namespace tapestry::bench
