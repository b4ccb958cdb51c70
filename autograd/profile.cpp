#include "autograd/profile.h"

#include <fmt/format.h>

#include <array>

namespace tapestry {
namespace {

constexpr std::array phases = {Phase::forward, Phase::backward, Phase::inference, Phase::other};

double percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0.0; }

/// The number, or a dash if there is nothing to tell.
std::string if_any(double number, int decimals) {
  return number > 0 ? fmt::format("{:.{}f}", number, decimals) : "-";
}

std::string speed(double amount, double seconds) {
  return if_any(seconds > 0 ? amount / seconds * 1e-9 : 0.0, 1);
}

constexpr const char* columns = "{:<28} {:<9} {:>9} {:>11} {:>7} {:>9} {:>10} {:>8}\n";

std::string line_of(const ProfileRow& row, double whole) {
  return fmt::format(
      columns, row.name, name(row.phase), if_any(static_cast<double>(row.calls), 0),
      fmt::format("{:.3f}", row.seconds), fmt::format("{:.1f} %", percent(row.seconds, whole)),
      speed(row.flops, row.seconds), if_any(row.bytes * 1e-9, 3), speed(row.bytes, row.seconds));
}

std::string sums(const Profile& profile) {
  std::string text = "in all";
  double flops = 0.0;
  for (const Phase phase : phases) {
    double seconds = 0.0;
    for (const ProfileRow& row : profile.rows) {
      if (row.phase != phase) continue;
      seconds += row.seconds;
      flops += row.flops;
    }
    text += fmt::format("  {} {:.1f} %", name(phase), percent(seconds, profile.seconds));
  }
  return text + fmt::format("  GFLOP/s {}\n", speed(flops, profile.seconds));
}

}  // namespace

const char* name(Phase phase) {
  switch (phase) {
    case Phase::forward:
      return "forward";
    case Phase::backward:
      return "backward";
    case Phase::inference:
      return "inference";
    case Phase::other:
      break;
  }
  return "other";
}

std::string to_string(const Profile& profile) {
  std::string text =
      fmt::format("where {:.3f} seconds went; a row leaves out what other rows inside it took\n",
                  profile.seconds);
  text +=
      fmt::format(columns, "what", "phase", "calls", "seconds", "share", "GFLOP/s", "GB", "GB/s");
  for (const ProfileRow& row : profile.rows) text += line_of(row, profile.seconds);
  text += sums(profile);
  text += "GFLOP/s: matrix products; GB: by shapes, each input and output once, shared or not\n";
  return text;
}

}  // namespace tapestry
