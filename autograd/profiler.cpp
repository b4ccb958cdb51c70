#include "autograd/profiler.h"

#include <algorithm>
#include <functional>

#include "autograd/tape.h"

namespace tapestry {

Profiler::Reading& Profiler::Reading::operator+=(const Reading& other) {
  seconds += other.seconds;
  flops += other.flops;
  return *this;
}

Profiler::Reading Profiler::Reading::operator-(const Reading& other) const {
  return {seconds - other.seconds, flops - other.flops};
}

Profiler::Profiler() : outer_(active_), started_(std::chrono::steady_clock::now()) {
  active_ = this;
}
Profiler::~Profiler() { active_ = outer_; }

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
  begin(operation, Tape::active() != nullptr ? Phase::forward : Phase::inference);
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

}  // namespace tapestry
