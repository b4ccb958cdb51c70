#include "train/recording/time_use_log.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cmath>
#include <iterator>
#include <utility>

#include "autograd/kernels/parallel.h"
#include "data/io/number.h"
#include "train/format.h"

namespace tapestry {
namespace {

const std::string& heading() {
  static const std::string text = fmt::format(
      "step,started,seconds,processor_seconds,other_seconds,threads,cores,positions,padding,{}",
      fmt::join(time_part_names, ","));
  return text;
}

std::optional<std::uint64_t> parse_time_use_step(std::string_view row) {
  return parse_csv_step(row, heading());
}

StepLines time_use_lines() {
  return {.heading = heading(),
          .longest_line = 4096,
          .parse_step = parse_time_use_step};  // ten times what is written
}

/// In UTC, to the microsecond: processes may follow each other within a second.
std::string present_time() {
  using std::chrono::microseconds, std::chrono::seconds, std::chrono::system_clock;
  const auto now = system_clock::now();
  const auto second = std::chrono::floor<seconds>(now);
  std::string text = format_time(system_clock::to_time_t(second));
  const auto fraction = std::chrono::duration_cast<microseconds>(now - second).count();
  if (text.ends_with('Z')) text.insert(text.size() - 1, fmt::format(".{:06}", fraction));
  return text;
}

/// The fields of a row, taken one after another.
class RowReader {
 public:
  explicit RowReader(std::string_view row) : rest_(row) {}

  std::string_view text() {
    const std::size_t end = std::min(rest_.find(','), rest_.size());
    const std::string_view field = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    return field;
  }

  /// A finite number >= 0; any other field makes the row invalid.
  template <class T>
  T number() {
    const auto value = parse_number<T>(text());
    const bool valid = value && *value >= 0 && std::isfinite(static_cast<double>(*value));
    is_valid_ = is_valid_ && valid;
    return valid ? *value : T{};
  }

  std::optional<double> number_or_nothing() {
    if (!rest_.starts_with(',')) return number<double>();
    text();
    return std::nullopt;
  }

  bool is_valid() const { return is_valid_; }

 private:
  std::string_view rest_;
  bool is_valid_ = true;
};

std::optional<ProcessTimeUse> parse_row(std::string_view line) {
  if (!parse_time_use_step(line)) return std::nullopt;
  RowReader row(line);
  ProcessTimeUse use;
  use.step = row.number<std::uint64_t>();
  use.started = row.text();
  use.seconds = row.number<double>();
  use.processor_seconds = row.number_or_nothing();
  use.other_seconds = row.number_or_nothing();
  use.threads = row.number<std::size_t>();
  use.cores = row.number<std::size_t>();
  use.positions = row.number<std::uint64_t>();
  use.padding = row.number<std::uint64_t>();
  for (double& part : use.parts) part = row.number<double>();
  return row.is_valid() ? std::optional(std::move(use)) : std::nullopt;
}

}  // namespace

TimeUseLog::TimeUseLog(std::filesystem::path path, std::uint64_t step)
    : log_(std::move(path), time_use_lines(), step), started_text_(present_time()) {}

void TimeUseLog::add(std::uint64_t step, const TimeUse& use) {
  last_row_ = Clock::now();
  std::string row = fmt::format("{},{},{:.6g},", step, started_text_,
                                std::chrono::duration<double>(last_row_ - started_).count());
  const auto now = read_processor_time();
  if (now && processor_before_) {
    const double own = now->own - processor_before_->own;
    // Both clocks are read one after the other, and the one of all programs has coarse ticks.
    const double others = std::max(0.0, now->all - processor_before_->all - own);
    fmt::format_to(std::back_inserter(row), "{:.6g},{:.6g}", own, others);
  } else {
    row += ',';
  }
  fmt::format_to(std::back_inserter(row), ",{},{},{},{}", kernels::num_threads(),
                 read_cores().allowed, use.positions(), use.padding());
  for (std::size_t i = 0; i < time_part_names.size(); ++i) {
    fmt::format_to(std::back_inserter(row), ",{:.6g}", use.seconds(static_cast<TimePart>(i)));
  }
  log_.append(row + "\n");
}

void TimeUseLog::add_if_due(std::uint64_t step, const TimeUse& use) {
  if (Clock::now() - last_row_ >= between_rows) add(step, use);
}

std::vector<ProcessTimeUse> parse_time_use(std::string_view text) {
  std::vector<ProcessTimeUse> processes;
  bool is_heading = true;
  for (std::size_t end = text.find('\n'); end != text.npos; end = text.find('\n')) {
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    if (std::exchange(is_heading, false)) {
      if (line != heading()) break;
      continue;
    }
    auto row = parse_row(line);
    if (!row) break;
    const bool continues = !processes.empty() && processes.back().started == row->started &&
                           processes.back().seconds <= row->seconds;
    if (continues) processes.pop_back();
    processes.push_back(*std::move(row));
  }
  return processes;
}

}  // namespace tapestry
