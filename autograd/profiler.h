// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "autograd/execution_context.h"
#include "autograd/kernels/matmul.h"

namespace tapestry {

/// The kind of work that a ProfileRow measures.
enum class Phase : std::uint8_t {
  forward,    ///< operations with an active tape
  backward,   ///< operations in Tape::backward
  inference,  ///< operations without an active tape
  other       ///< all other code
};
/// "forward", "backward", "inference" or "other".
const char* name(Phase phase);

/// The totals of one name in one phase, excluding nested rows.
struct ProfileRow {
  std::string name;     ///< operation or scope; "everything else" for the rest
  Phase phase;          ///< the kind of work
  std::uint64_t calls;  ///< 0 for "everything else"
  double seconds;       ///< wall time
  double flops;         ///< of matrix products only, two per multiply-add
  double bytes;         ///< see Profiler; 0 for rows that are not operations
};

/// The result of a Profiler.
struct Profile {
  double seconds;                ///< wall time
  std::vector<ProfileRow> rows;  ///< longest time first; the times add up to `seconds`
};

/// The profile as a table, with the share of each row and phase. Lines have at most 100 characters.
std::string to_string(const Profile& profile);

class ProfileScope;

/// Measures the time of its thread during its lifetime: of every operation, forward and backward,
/// and of other code in a ProfileScope.
///
///     const Profiler profiler;
///     train();
///     fmt::print("{}", to_string(profiler.profile()));
///
/// Times are wall times and include waiting for the threads of a kernel. Floating-point operations
/// of matrix products are counted on all threads of the process. Bytes are computed from shapes,
/// not measured: for a forward pass the inputs and the output; for a backward pass dL/dy and, for
/// each input that needs a gradient, its value and gradient. The actual traffic is reduced by
/// caches and increased by temporaries and by values saved for backward.
///
/// Profilers nest; the innermost one measures. Without a profiler, a scope costs one pointer test.
class Profiler {
 public:
  /// Becomes the active profiler of this thread and starts to measure.
  Profiler();

  /// The profile so far. Time outside of any scope, or in a scope that is still open, is in the row
  /// "everything else".
  Profile profile() const;

 private:
  friend class ProfileScope;

  /// Time and operation count at a point in time, or for an interval.
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

  ContextGuard<&ExecutionContext::profiler> active_;
  kernels::FlopCounter flops_;
  std::chrono::steady_clock::time_point started_;
  ProfileScope* innermost_ = nullptr;
  std::map<std::pair<std::string_view, Phase>, Totals> totals_;
};

/// Measures the time from its construction to its destruction under a name, excluding nested
/// scopes. Must be destroyed before the profiler. The name must be a literal.
class ProfileScope {
 public:
  /// Measures an operation's forward pass, in Phase::inference if no tape is active.
  explicit ProfileScope(const char* operation) : profiler_(execution_context().profiler) {
    if (profiler_ != nullptr) [[unlikely]]
      begin_forward(operation);
  }
  /// Measures other code, in the given phase.
  ProfileScope(const char* name, Phase phase) : profiler_(execution_context().profiler) {
    if (profiler_ != nullptr) [[unlikely]]
      begin(name, phase);
  }
  /// Adds the time to the profile.
  ~ProfileScope() {
    if (profiler_ != nullptr) [[unlikely]]
      end();
  }
  ProfileScope(const ProfileScope&) = delete;
  ProfileScope& operator=(const ProfileScope&) = delete;

  /// Whether the scope measures; false without a profiler.
  explicit operator bool() const { return profiler_ != nullptr; }
  /// Adds to the bytes of this scope, see Profiler.
  void add_bytes(double bytes) { bytes_ += bytes; }

 private:
  void begin_forward(const char* operation);
  void begin(const char* name, Phase phase);
  void end();

  Profiler* profiler_;
  // Set only by begin, so that a scope costs nothing without a profiler.
  ProfileScope* outer_;
  const char* name_;
  Phase phase_;
  double bytes_;
  Profiler::Reading started_, inside_;
};

}  // namespace tapestry
