#pragma once

#include <cstddef>
#include <functional>

#include "train/progress.h"

namespace tapestry {

/// Counts failed saves. A run continues with a warning after a failed save, because the next save
/// may succeed. The third consecutive failure ends the run, and so does a failure of the last save.
class SaveAttempts {
 public:
  static constexpr std::size_t most_failures = 3;  ///< consecutive

  /// Failures are reported to `progress`, which must outlive the object.
  explicit SaveAttempts(Progress& progress) : progress_(progress) {}

  /// Calls `save`; returns whether it succeeded.
  /// last    whether this is the last save of the run
  /// throws  OutputError or std::bad_alloc from `save`, if the failure ends the run.
  bool attempt(const std::function<void()>& save, bool last);

 private:
  void warn_or_rethrow(const char* failure, bool last);

  Progress& progress_;
  std::size_t failures_ = 0;  ///< consecutive
};

}  // namespace tapestry
