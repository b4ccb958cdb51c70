// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <vector>

namespace tapestry::bench {

/// Speed of OpenBLAS's product of two 1024 x 1024 single-precision matrices on the given threads,
/// the peak that training steps are compared with. Measured in several short runs between the
/// steps, so that products and steps run under the same conditions.
class GemmPeak {
 public:
  explicit GemmPeak(std::size_t threads);

  /// Times a few products. OpenBLAS uses all threads during this, and one thread afterwards, as the
  /// kernels require.
  void measure();

  /// FLOP/s at the 10th percentile of all times.
  double flops_per_second() const;

 private:
  std::size_t threads_;
  std::vector<float> a_, b_, c_;
  std::vector<double> times_;
};

}  // namespace tapestry::bench
