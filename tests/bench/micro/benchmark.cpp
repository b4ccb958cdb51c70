// SPDX-License-Identifier: BSD-3-Clause
#include "tests/bench/micro/benchmark.h"

#include <CLI/CLI.hpp>
#include <cmath>

#include "autograd/kernels/parallel.h"

namespace tapestry::bench {

Work passing(std::size_t arrays, std::size_t n) {
  return {.bytes = static_cast<double>(arrays * n * sizeof(float))};
}

std::vector<float> values(std::size_t n) {
  std::vector<float> result(n);
  for (std::size_t i = 0; i < n; ++i) result[i] = std::sin(static_cast<float>(i % 1009));
  return result;
}

void report(benchmark::State& state, const Work& work) {
  const auto per_second = benchmark::Counter::kIsIterationInvariantRate;
  if (work.flops > 0.0) state.counters["FLOP"] = benchmark::Counter(work.flops, per_second);
  if (work.bytes > 0.0) state.counters["B"] = benchmark::Counter(work.bytes, per_second);
}

}  // namespace tapestry::bench

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  CLI::App app{"Times single kernels."};
  std::size_t threads = 1;
  app.add_option("--threads", threads,
                 "number of kernel threads; 0 means one per core (default 1)");
  CLI11_PARSE(app, argc, argv);

  tapestry::kernels::set_num_threads(threads);
  benchmark::AddCustomContext("threads of a kernel",
                              std::to_string(tapestry::kernels::num_threads()));
  tapestry::bench::add_gemm_benchmarks();
  tapestry::bench::add_attention_benchmarks();
  tapestry::bench::add_row_benchmarks();
  tapestry::bench::add_loss_benchmarks();
  tapestry::bench::add_movement_benchmarks();
  tapestry::bench::add_elementwise_benchmarks();
  tapestry::bench::add_operation_benchmarks();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
