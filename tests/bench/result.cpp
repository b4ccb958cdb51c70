#include "tests/bench/result.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace tapestry::bench {

std::string to_line(const Result& r) {
  return fmt::format(
      "{:<5} {} threads  {:.2f} ms a step  {:.0f} target tokens/s  {:.1f} GFLOP/s = {:.1f} % of "
      "the {:.1f} of sgemm  {:.0f} MB peak  a step: {:.1f} page faults, {:.1f} pool allocations, "
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
