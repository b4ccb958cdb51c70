// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace tapestry {

/// Implementation of the matrix products of all operations.
enum class Matmul {
  /// The library that the environment variable TAPESTRY_MATMUL names, or else Tapestry's kernels.
  automatic,
  /// Tapestry's kernels: the bits of a row of a result do not depend on the other rows, and are the
  /// same on every processor that runs the same kernels.
  tapestry,
  /// OpenBLAS, called through xtensor-blas on one thread for each piece of a product. OpenBLAS
  /// chooses its kernels by the processor, and the bits of a row depend on the number of rows.
  openblas,
};

/// Makes all operations use `choice`. The first product of OpenBLAS sets OpenBLAS to one thread for
/// the whole process. No operation may run during the call.
void use_matmul(Matmul choice);

/// The choice in use: tapestry or openblas.
Matmul matmul_in_use();

/// The processor type of the kernels that OpenBLAS has chosen, such as "SkylakeX"; empty if
/// OpenBLAS is not in use.
std::string openblas_kernels();

}  // namespace tapestry

namespace tapestry::kernels {

namespace detail {
inline std::atomic<std::uint32_t> flop_counters{0};
alignas(64) inline std::atomic<std::uint64_t> flops{0};
}  // namespace detail

/// Counts a product (m, k) (k, n) if a FlopCounter exists; called on any thread.
inline void count_product(std::size_t m, std::size_t n, std::size_t k) {
  if (detail::flop_counters.load(std::memory_order_relaxed) == 0) return;
  detail::flops.fetch_add(2 * m * n * k, std::memory_order_relaxed);
}

/// During the lifetime of a FlopCounter, the floating point operations of all matrix products of
/// the process are counted, two for each multiplication.
class FlopCounter {
 public:
  FlopCounter() { detail::flop_counters.fetch_add(1, std::memory_order_relaxed); }
  ~FlopCounter() { detail::flop_counters.fetch_sub(1, std::memory_order_relaxed); }
  FlopCounter(const FlopCounter&) = delete;
  FlopCounter& operator=(const FlopCounter&) = delete;

  /// Only the difference of two counts is meaningful.
  std::uint64_t count() const { return detail::flops.load(std::memory_order_relaxed); }
};

}  // namespace tapestry::kernels
