#include <CLI/CLI.hpp>

#include "autograd/kernels/parallel.h"
#include "tests/bench/micro/benchmark.h"

using namespace tapestry::bench;

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  CLI::App app{"Times kernels one after the other."};
  std::size_t threads = 1;
  app.add_option("--threads", threads, "of the kernels; 0 means one for each core (default 1)");
  CLI11_PARSE(app, argc, argv);

  tapestry::kernels::set_num_threads(threads);
  benchmark::AddCustomContext("threads of a kernel",
                              std::to_string(tapestry::kernels::num_threads()));
  add_gemm_benchmarks();
  add_attention_benchmarks();
  add_row_benchmarks();
  add_loss_benchmarks();
  add_movement_benchmarks();
  add_elementwise_benchmarks();
  add_operation_benchmarks();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
