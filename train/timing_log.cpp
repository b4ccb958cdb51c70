#include "train/timing_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <ctime>
#include <string_view>
#include <system_error>
#include <utility>

#include "train/format.h"

namespace tapestry {
namespace {

/// The step of a row with as many fields as the heading; nullopt for another line.
std::optional<std::uint64_t> step_of(std::string_view row) {
  std::uint64_t step = 0;
  const char* end = row.data() + row.size();
  const auto [stop, error] = std::from_chars(row.data(), end, step);
  const auto commas = [](std::string_view text) { return std::ranges::count(text, ','); };
  const bool whole =
      error == std::errc() && stop != end && *stop == ',' && commas(row) == commas(timing_heading);
  return whole ? std::optional(step) : std::nullopt;
}

constexpr StepLines timing_lines{
    .heading = timing_heading, .longest_line = 4096, .step_of = step_of};  // of ours, a tenth

}  // namespace

TimingLog::TimingLog(std::filesystem::path path, std::uint64_t step)
    : log_(std::move(path), timing_lines, step) {}

void TimingLog::add(const Timing& timing) {
  log_.append(fmt::format("{},{},{:.6g},{:.6g},{:.6g}\n", timing.step,
                          format_time(std::time(nullptr)), timing.elapsed_seconds,
                          timing.step_seconds, timing.targets_per_second));
}

}  // namespace tapestry
