#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "autograd/kernels/flop_counter.h"

namespace tapestry {

/// The kind of work that time was spent on.
enum class Phase : std::uint8_t {
  forward,    ///< operations, while a tape records
  backward,   ///< operations, in Tape::backward
  inference,  ///< operations, while no tape records
  other       ///< anything else
};
const char* name(Phase phase);

/// Totals of one name in one phase, without those of other rows nested in it.
struct ProfileRow {
  std::string name;
  Phase phase;
  std::uint64_t calls;  ///< 0 for "everything else"
  double seconds;
  double flops;  ///< of matrix products only, two for each multiplication
  double bytes;  ///< see Profiler; 0 for rows that are no operation
};

/// The result of a Profiler.
struct Profile {
  double seconds;                ///< wall time
  std::vector<ProfileRow> rows;  ///< the longest first; their seconds add up to `seconds`
};

/// A table of lines of at most 100 characters, with the share of each row and of each phase.
std::string to_string(const Profile& profile);

class ProfileScope;

/// Measures where the time of its thread goes while it is alive: every operation, forward and
/// backward, and other code in a ProfileScope.
///
///     const Profiler profiler;
///     train();
///     fmt::print("{}", to_string(profiler.profile()));
///
/// Time is wall time, so it includes waiting for the threads that a kernel uses. The floating point
/// operations of matrix products are counted on all threads of the process.
/// Bytes are computed from shapes, not measured: inputs and output in a forward; dL/dy, and value
/// and gradient of each input that needs one, in a backward. Caches reduce the true traffic, values
/// saved for backward and temporaries add to it.
///
/// Profilers nest; the innermost one measures. Without one, a scope costs one test of a pointer.
class Profiler {
 public:
  Profiler();
  ~Profiler();
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  /// The profile so far. Time outside any scope, or in one that is still open, is in the row
  /// "everything else".
  Profile profile() const;

  /// The profiler that measures on this thread, or null.
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

/// Attributes the time while it is alive to a name, except for the time of scopes nested in it. It
/// ends before the profiler does. The name is a literal.
class ProfileScope {
 public:
  /// For an operation's forward: Phase::forward if a tape records, Phase::inference if none does.
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

  /// False without a profiler.
  explicit operator bool() const { return profiler_ != nullptr; }
  void add_bytes(double bytes) { bytes_ += bytes; }

 private:
  void begin_forward(const char* operation);
  void begin(const char* name, Phase phase);
  void end();

  Profiler* profiler_;
  // Set by begin only, so that a scope costs nothing without a profiler.
  ProfileScope* outer_;
  const char* name_;
  Phase phase_;
  double bytes_;
  Profiler::Reading started_, inside_;
};

}  // namespace tapestry
