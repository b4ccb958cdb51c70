#include "tests/bench/micro/benchmark.h"

#include <cmath>

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
