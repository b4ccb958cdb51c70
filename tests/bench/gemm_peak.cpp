// SPDX-License-Identifier: BSD-3-Clause
#include "tests/bench/gemm_peak.h"

// cblas.h clashes with the BLAS declarations of xtensor-blas: neither this file nor gemm_peak.h may
// include a header that includes xtensor-blas.
#include <cblas.h>

#include <chrono>
#include <thread>

#include "tests/bench/measurements.h"

namespace tapestry::bench {
namespace {

constexpr int n = 1024;
constexpr int products_at_a_time = 6;
/// OpenBLAS's idle threads spin for about 30 milliseconds before they sleep.
constexpr std::chrono::milliseconds until_threads_sleep(60);

}  // namespace

GemmPeak::GemmPeak(std::size_t threads)
    : threads_(threads), a_(n * n, 0.5F), b_(n * n, 0.25F), c_(n * n) {}

void GemmPeak::measure() {
  openblas_set_num_threads(static_cast<int>(threads_));
  for (int i = 0; i < products_at_a_time; ++i) {
    const Timer timer;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1.0F, a_.data(), n, b_.data(),
                n, 0.0F, c_.data(), n);
    times_.push_back(timer.seconds());
  }
  openblas_set_num_threads(1);
  if (threads_ > 1) std::this_thread::sleep_for(until_threads_sleep);
}

double GemmPeak::flops_per_second() const { return 2.0 * n * n * n / low_percentile(times_); }

}  // namespace tapestry::bench
