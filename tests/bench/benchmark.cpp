// SPDX-License-Identifier: BSD-3-Clause
#include "tests/bench/benchmark.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <vector>

#include "autograd/kernels/parallel.h"
#include "autograd/profiler.h"
#include "tests/bench/gemm_peak.h"
#include "tests/bench/measurements.h"
#include "tests/bench/step.h"

namespace tapestry::bench {
namespace {

constexpr std::size_t warm_up_steps = 3;
constexpr std::size_t parts = 4;  ///< number of groups of steps, with products between them

struct Steps {
  explicit Steps(std::size_t number) { times.reserve(number); }

  /// Runs more steps. The first step brings data back into the caches and is not measured.
  void run(TrainingStep& step, std::size_t number) {
    step.run();
    const Counts before = Counts::now();
    for (std::size_t i = 0; i < number; ++i) {
      const Timer timer;
      step.run();
      times.push_back(timer.seconds());
    }
    counts = counts + (Counts::now() - before);
  }

  double per_step(std::uint64_t count) const {
    return static_cast<double>(count) / static_cast<double>(times.size());
  }

  std::vector<double> times;
  Counts counts;
};

void warm_up(TrainingStep& step) {
  for (std::size_t i = 0; i < warm_up_steps; ++i) step.run();
}

Result result_of(const Problem& problem, const Steps& steps, const GemmPeak& peak) {
  const double seconds = low_percentile(steps.times);
  return {.problem = problem.name,
          .threads = kernels::num_threads(),
          .seconds = seconds,
          .tokens_per_second = static_cast<double>(problem.tokens()) / seconds,
          .flops_per_second = flops_per_step(problem) / seconds,
          .peak_flops_per_second = peak.flops_per_second(),
          .page_faults = steps.per_step(steps.counts.page_faults),
          .pool_allocations = steps.per_step(steps.counts.pool_allocations),
          .calls_of_new = steps.per_step(steps.counts.calls_of_new)};
}

}  // namespace

Result measure(const Problem& problem, std::size_t number) {
  TrainingStep step(problem);
  warm_up(step);
  const std::uint64_t memory = peak_memory();  // before the products allocate memory

  GemmPeak peak(kernels::num_threads());
  Steps steps(number);
  peak.measure();
  for (std::size_t part = 0; part < parts; ++part) {
    steps.run(step, number * (part + 1) / parts - number * part / parts);
    peak.measure();
  }
  Result result = result_of(problem, steps, peak);
  result.peak_memory = memory;
  return result;
}

Profile profile(const Problem& problem, std::size_t number) {
  TrainingStep step(problem);
  warm_up(step);
  const Profiler profiler;
  for (std::size_t i = 0; i < number; ++i) step.run();
  return profiler.profile();
}

std::string to_line(const Result& r) {
  return fmt::format(
      "{:<5} {} threads  {:.2f} ms per step  {:.0f} target tokens/s  {:.1f} GFLOP/s = {:.1f} % of "
      "the {:.1f} of sgemm  {:.0f} MB peak  per step: {:.1f} page faults, {:.1f} pool allocations, "
      "{:.1f} calls of new",
      r.problem, r.threads, 1e3 * r.seconds, r.tokens_per_second, 1e-9 * r.flops_per_second,
      100.0 * r.flops_per_second / r.peak_flops_per_second, 1e-9 * r.peak_flops_per_second,
      1e-6 * static_cast<double>(r.peak_memory), r.page_faults, r.pool_allocations, r.calls_of_new);
}

std::string to_json(const Result& r) {
  return nlohmann::ordered_json{{"problem", r.problem},
                                {"threads", r.threads},
                                {"seconds", r.seconds},
                                {"tokens_per_second", r.tokens_per_second},
                                {"flops_per_second", r.flops_per_second},
                                {"peak_flops_per_second", r.peak_flops_per_second},
                                {"peak_memory", r.peak_memory},
                                {"page_faults", r.page_faults},
                                {"pool_allocations", r.pool_allocations},
                                {"calls_of_new", r.calls_of_new}}
      .dump();
}

}  // namespace tapestry::bench
