// SPDX-License-Identifier: BSD-3-Clause
#include "train/loop/live_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string_view>

#include "train/base/format.h"
#include "train/config/text.h"

namespace tapestry {
namespace {

constexpr std::size_t max_parts = 64;

/// A part of the line. Parts with a higher number are left out first.
struct Part {
  int drop_order;
  std::string text;
};

std::string join(const std::vector<Part>& parts) {
  std::string line;
  for (const Part& part : parts) {
    if (!line.empty()) line += "  ";
    line += part.text;
  }
  return line;
}

/// The mean of the finite values; NaN without finite values.
double finite_mean(std::span<const double> values) {
  double sum = 0.0;
  std::size_t count = 0;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    sum += value;
    ++count;
  }
  return count == 0 ? std::numeric_limits<double>::quiet_NaN() : sum / static_cast<double>(count);
}

}  // namespace

void LossHistory::add(double loss) {
  constexpr double decay = 0.95;
  sum_ = decay * sum_ + loss;
  weight_ = decay * weight_ + 1.0;
  part_sum_ += loss;
  if (++part_steps_ < steps_per_part_) return;
  parts_.push_back(part_sum_ / static_cast<double>(part_steps_));
  part_sum_ = 0.0;
  part_steps_ = 0;
  if (parts_.size() < max_parts) return;
  for (std::size_t i = 0; i < max_parts / 2; ++i) {
    parts_[i] = (parts_[2 * i] + parts_[2 * i + 1]) / 2;
  }
  parts_.resize(max_parts / 2);
  steps_per_part_ *= 2;
}

double LossHistory::smoothed() const { return weight_ == 0.0 ? 0.0 : sum_ / weight_; }

std::string progress_bar(std::uint64_t step, std::uint64_t total_steps) {
  constexpr std::size_t cells = 10;
  const double share = total_steps == 0 ? 1.0
                                        : static_cast<double>(std::min(step, total_steps)) /
                                              static_cast<double>(total_steps);
  const auto filled = static_cast<std::size_t>(share * cells);
  return "[" + std::string(filled, '#') + std::string(cells - filled, '-') + "]";
}

std::string sparkline(std::span<const double> values, std::size_t width) {
  constexpr std::array<std::string_view, 8> blocks = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  if (values.size() < 2 || width < 2) return "";
  const std::size_t count = std::min(width, values.size());
  std::vector<double> means(count);
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t begin = i * values.size() / count, end = (i + 1) * values.size() / count;
    means[i] = finite_mean(values.subspan(begin, end - begin));
    if (!std::isfinite(means[i])) continue;
    low = std::min(low, means[i]);
    high = std::max(high, means[i]);
  }
  std::string line;
  for (const double mean : means) {
    if (!std::isfinite(mean)) {
      line += ' ';
      continue;
    }
    const double level = high > low ? (mean - low) / (high - low) : 0.0;
    line += blocks[static_cast<std::size_t>(std::lround(level * 7))];
  }
  return line;
}

std::string live_line(const LiveValues& values, std::size_t columns, bool utf8) {
  constexpr std::size_t sparkline_width = 24, min_parts = 8;
  std::vector<Part> parts = {{4, progress_bar(values.step, values.total_steps)},
                             {0, fmt::format("step {}/{}", values.step, values.total_steps)},
                             {1, "loss " + format_value(values.loss, 4)}};
  if (values.best) {
    parts.push_back(
        {5, fmt::format("best {} {}", values.best->metric, format_value(values.best->value, 4))});
  }
  parts.push_back({6, values.speed});
  parts.push_back({2, fmt::format("{} left", values.time_left)});
  if (values.resident_bytes > 0) parts.push_back({7, format_bytes(values.resident_bytes)});
  if (utf8 && values.past.size() >= min_parts) {
    parts.push_back({8, sparkline(values.past, sparkline_width)});
  }
  while (parts.size() > 1 && count_characters(join(parts)) > columns) {
    parts.erase(std::ranges::max_element(parts, {}, &Part::drop_order));
  }
  return std::string(characters(join(parts), 0, columns));
}

bool is_utf8_locale() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* const value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    std::string locale(value);
    for (char& c : locale) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return locale.find("utf-8") != locale.npos || locale.find("utf8") != locale.npos;
  }
  return false;
}

}  // namespace tapestry
