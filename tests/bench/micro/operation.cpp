// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/kernels/activations.h"
#include "autograd/kernels/simd.h"
#include "autograd/ops/activations.h"
#include "autograd/ops/elementwise.h"
#include "autograd/tape.h"
#include "tests/bench/micro/benchmark.h"

namespace tapestry::bench {
namespace {

constexpr std::size_t chain = 1000;

/// Adds a benchmark of `chain` consecutive operations. The counter "each" is the time of one
/// operation.
template <class Body>
void add_chain(const std::string& name, Body body) {
  const auto run = [body](benchmark::State& state) {
    for (auto _ : state) body();
    state.counters["each"] = benchmark::Counter(
        static_cast<double>(chain),
        benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
  };
  benchmark::RegisterBenchmark(("operation/" + name).c_str(), run)
      ->Unit(benchmark::kMicrosecond)
      ->UseRealTime();
}

/// Benchmarks a chain on a one-element tensor: forward under a tape, and backward.
template <class Operation>
void add_recorded(const std::string& name, Operation operation) {
  const Tensor x = Tensor::scalar(1.0, DType::float32).set_requires_grad(true);
  add_chain(name + "/recorded and backward", [x, operation] {
    Tape tape;
    Tensor y = x;
    for (std::size_t i = 0; i < chain; ++i) y = operation(y);
    tape.backward(y);
  });
  add_chain(name + "/not recorded", [x, operation] {
    Tensor y = x;
    for (std::size_t i = 0; i < chain; ++i) y = operation(y);
    benchmark::DoNotOptimize(y);
  });
}

/// The vector loops of relu, forward and backward, without the overhead of an operation.
void add_arithmetic() {
  using Vec = kernels::Vec<float>;
  add_chain("relu/arithmetic only", [] {
    float x = 1.0F, y = 0.0F, g = 1.0F;
    for (std::size_t i = 0; i < chain; ++i) {
      benchmark::DoNotOptimize(x);
      kernels::map(
          1, kernels::Target<float>{&y}, [](const Vec& v) { return kernels::relu(v); }, &x);
      kernels::map(
          1, kernels::Target<float>{&g},
          [](const Vec& dy, const Vec& value) {
            return xsimd::select(value <= Vec(0.0F), Vec(0.0F), dy);
          },
          &g, &y);
      benchmark::DoNotOptimize(g);
    }
  });
}

}  // namespace

void add_operation_benchmarks() {
  add_recorded("relu", [](const Tensor& x) { return relu(x); });
  add_recorded("scale", [](const Tensor& x) { return scale(x, 1.0); });
  add_arithmetic();
}

}  // namespace tapestry::bench
