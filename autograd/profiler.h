#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string_view>
#include <utility>

#include "autograd/kernels/flop_counter.h"
#include "autograd/profile.h"

namespace tapestry {

class ProfileScope;

/// Finds out where the time of its thread goes while it is alive: every operation, forward and
/// backward, and whatever else stands in a ProfileScope.
///
///     const Profiler profiler;
///     train();
///     fmt::print("{}", to_string(profiler.profile()));
///
/// Time is that of the clock, so it includes waiting for the threads that a kernel uses.
/// Operations of matrix products are counted where they run, on any thread of the process.
/// Bytes are computed from shapes, not measured: inputs and output in a forward; dL/dy, and value
/// and gradient of each input that wants one, in a backward. Caches make the true traffic less,
/// what an operation saves for its backward or takes in pieces makes it more.
///
/// Profilers nest; the innermost takes note. Without one, a scope costs one test of a pointer.
class Profiler {
 public:
  Profiler();
  ~Profiler();
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  /// What came together so far. What ran outside any scope, or in one that is still open, is in the
  /// row "everything else".
  Profile profile() const;

  /// The profiler that takes note on this thread, or null.
  static Profiler* active() { return active_; }

 private:
  friend class ProfileScope;

  /// Time and operations at a point in time, or of an interval.
  struct Reading {
    double seconds, flops;

    Reading& operator+=(const Reading& other);
    Reading operator-(const Reading& other) const;
  };
  struct Totals {
    std::uint64_t calls = 0;
    Reading self{};
    double bytes = 0.0;
  };

  Reading now() const;

  static inline constinit thread_local Profiler* active_ = nullptr;

  Profiler* outer_;
  kernels::FlopCounter flops_;
  std::chrono::steady_clock::time_point started_;
  ProfileScope* innermost_ = nullptr;
  std::map<std::pair<std::string_view, Phase>, Totals> totals_;
};

/// Books what runs while it is alive under a name, less what scopes inside it book. It ends before
/// the profiler does. The name is a literal.
class ProfileScope {
 public:
  /// Of an operation's forward: Phase::forward if a tape records, Phase::inference if none does.
  explicit ProfileScope(const char* operation) : profiler_(Profiler::active()) {
    if (profiler_ != nullptr) [[unlikely]]
      begin_forward(operation);
  }
  ProfileScope(const char* name, Phase phase) : profiler_(Profiler::active()) {
    if (profiler_ != nullptr) [[unlikely]]
      begin(name, phase);
  }
  ~ProfileScope() {
    if (profiler_ != nullptr) [[unlikely]]
      end();
  }
  ProfileScope(const ProfileScope&) = delete;
  ProfileScope& operator=(const ProfileScope&) = delete;

  /// False if nobody takes note.
  explicit operator bool() const { return profiler_ != nullptr; }
  void add_bytes(double bytes) { bytes_ += bytes; }

 private:
  void begin_forward(const char* operation);
  void begin(const char* name, Phase phase);
  void end();

  Profiler* profiler_;
  // Set by begin alone, so that a scope costs nothing where nobody takes note.
  ProfileScope* outer_;
  const char* name_;
  Phase phase_;
  double bytes_;
  Profiler::Reading started_, inside_;
};

}  // namespace tapestry
