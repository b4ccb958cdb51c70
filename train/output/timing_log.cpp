#include "train/output/timing_log.h"

#include <fmt/format.h>

#include <ctime>
#include <utility>

#include "train/format.h"

namespace tapestry {
namespace {

std::optional<std::uint64_t> parse_timing_step(std::string_view row) {
  return parse_csv_step(row, timing_heading);
}

constexpr StepLines timing_lines{.heading = timing_heading,
                                 .longest_line = 4096,
                                 .parse_step = parse_timing_step};  // ten times what is written

}  // namespace

TimingLog::TimingLog(std::filesystem::path path, std::uint64_t step)
    : log_(std::move(path), timing_lines, step) {}

void TimingLog::add(const Timing& timing) {
  log_.append(fmt::format("{},{},{:.6g},{:.6g},{:.6g}\n", timing.step,
                          format_time(std::time(nullptr)), timing.elapsed_seconds,
                          timing.step_seconds, timing.targets_per_second));
}

}  // namespace tapestry
