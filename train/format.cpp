#include "train/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tapestry {

std::string format_count(std::uint64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t i = digits.size(); i > 3;) digits.insert(i -= 3, ",");
  return digits;
}

std::string format_duration(double seconds) {
  const auto total = static_cast<std::uint64_t>(std::max(0.0, std::round(seconds)));
  const std::uint64_t hours = total / 3600;
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, total / 60 % 60, total % 60);
  return fmt::format("{}:{:02}", total / 60, total % 60);
}

std::string format_bytes(std::uint64_t bytes) {
  const auto number = static_cast<double>(bytes);
  if (bytes >= 1'000'000'000) return fmt::format("{:.1f} GB", 1e-9 * number);
  return fmt::format("{:.{}f} MB", 1e-6 * number, bytes < 10'000'000 ? 1 : 0);
}

std::string format_share(double share) {
  return share < 0.001 ? "under 0.1 %" : fmt::format("{:.1f} %", 100 * share);
}

}  // namespace tapestry
