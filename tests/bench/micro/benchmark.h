// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <benchmark/benchmark.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace tapestry::bench {

/// Work of one run of a kernel; zeros are not reported.
struct Work {
  double flops = 0.0;  ///< floating point operations, two for each multiplication of a product
  double bytes = 0.0;  ///< bytes of the arrays that the kernel reads and writes, each counted once
};

/// The work of a kernel that makes one pass over `arrays` arrays of n float32 values.
Work passing(std::size_t arrays, std::size_t n);

/// n float32 values between -1 and 1, irregular but the same in every run.
std::vector<float> values(std::size_t n);

/// Makes `state` show work per second.
void report(benchmark::State& state, const Work& work);

/// Adds a benchmark of the function that `prepare` returns.
template <class Prepare>
void add_benchmark(const std::string& name, const Work& work, Prepare prepare) {
  const auto run = [work, prepare = std::move(prepare)](benchmark::State& state) {
    auto kernel = prepare();
    for (auto _ : state) {
      kernel();
      benchmark::ClobberMemory();
    }
    report(state, work);
  };
  benchmark::RegisterBenchmark(name.c_str(), run)->Unit(benchmark::kMicrosecond)->UseRealTime();
}

// The benchmarks by topic, one file each.
void add_gemm_benchmarks();
void add_attention_benchmarks();
void add_row_benchmarks();
void add_loss_benchmarks();
void add_movement_benchmarks();
void add_elementwise_benchmarks();
void add_operation_benchmarks();

}  // namespace tapestry::bench
