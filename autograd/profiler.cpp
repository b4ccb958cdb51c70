// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/profiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>

namespace tapestry {

Profiler::Reading& Profiler::Reading::operator+=(const Reading& other) {
  seconds += other.seconds;
  flops += other.flops;
  return *this;
}

Profiler::Reading Profiler::Reading::operator-(const Reading& other) const {
  return {seconds - other.seconds, flops - other.flops};
}

Profiler::Profiler() : active_(this), started_(std::chrono::steady_clock::now()) {}

Profiler::Reading Profiler::now() const {
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - started_;
  return {passed.count(), static_cast<double>(flops_.count())};
}

Profile Profiler::profile() const {
  Profile profile{.seconds = now().seconds, .rows = {}};
  double rest = profile.seconds;
  for (const auto& [key, totals] : totals_) {
    profile.rows.push_back({.name = std::string(key.first),
                            .phase = key.second,
                            .calls = totals.calls,
                            .seconds = totals.self.seconds,
                            .flops = totals.self.flops,
                            .bytes = totals.bytes});
    rest -= totals.self.seconds;
  }
  profile.rows.push_back({.name = "everything else",
                          .phase = Phase::other,
                          .calls = 0,
                          .seconds = rest,
                          .flops = 0.0,
                          .bytes = 0.0});
  std::ranges::stable_sort(profile.rows, std::greater{}, &ProfileRow::seconds);
  return profile;
}

void ProfileScope::begin_forward(const char* operation) {
  begin(operation, execution_context().tape != nullptr ? Phase::forward : Phase::inference);
}

void ProfileScope::begin(const char* name, Phase phase) {
  outer_ = std::exchange(profiler_->innermost_, this);
  name_ = name;
  phase_ = phase;
  bytes_ = 0.0;
  inside_ = {};
  started_ = profiler_->now();
}

void ProfileScope::end() {
  const Profiler::Reading passed = profiler_->now() - started_;
  Profiler::Totals& totals = profiler_->totals_[{name_, phase_}];
  ++totals.calls;
  totals.self += passed - inside_;
  totals.bytes += bytes_;
  profiler_->innermost_ = outer_;
  if (outer_ != nullptr) outer_->inside_ += passed;
}

namespace {

constexpr std::array phases = {Phase::forward, Phase::backward, Phase::inference, Phase::other};

double percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0.0; }

/// The number, or a dash if it is 0.
std::string if_any(double number, int decimals) {
  return number > 0 ? fmt::format("{:.{}f}", number, decimals) : "-";
}

std::string speed(double amount, double seconds) {
  return if_any(seconds > 0 ? amount / seconds * 1e-9 : 0.0, 1);
}

constexpr const char* columns = "{:<28} {:<9} {:>9} {:>11} {:>7} {:>9} {:>10} {:>8}\n";

std::string format_row(const ProfileRow& row, double whole) {
  return fmt::format(
      columns, row.name, name(row.phase), if_any(static_cast<double>(row.calls), 0),
      fmt::format("{:.3f}", row.seconds), fmt::format("{:.1f} %", percent(row.seconds, whole)),
      speed(row.flops, row.seconds), if_any(row.bytes * 1e-9, 3), speed(row.bytes, row.seconds));
}

std::string sums(const Profile& profile) {
  std::string text = "total";
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
  std::string text = fmt::format(
      "{:.3f} seconds by operation; each row excludes the time of nested rows\n", profile.seconds);
  text +=
      fmt::format(columns, "name", "phase", "calls", "seconds", "share", "GFLOP/s", "GB", "GB/s");
  for (const ProfileRow& row : profile.rows) text += format_row(row, profile.seconds);
  text += sums(profile);
  text += "GFLOP/s: matrix products; GB: by shapes, each input and output once, shared or not\n";
  return text;
}

}  // namespace tapestry
