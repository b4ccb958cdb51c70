#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "train/checkpoint/run_directory.h"
#include "train/loop/progress.h"

namespace tapestry {

/// Counts failed saves. A run continues with a warning after a failed save, because the next save
/// may succeed. The third consecutive failure ends the run, and so does a failure of the last save.
class SaveAttempts {
 public:
  static constexpr std::size_t most_failures = 3;  ///< consecutive

  /// Failures are reported to `progress`. Both arguments must outlive the object.
  SaveAttempts(Progress& progress, const RunDirectory& directory)
      : progress_(progress), directory_(directory) {}

  /// Calls `save`; returns whether it succeeded.
  ///
  /// step    steps that the run has done
  /// last    whether this is the last save of the run
  /// throws  OutputError if the failure ends the run; its message has the failure, why the run
  ///         ends, its step, its newest checkpoint and how to resume it. std::bad_alloc if `save`
  ///         throws it and the run ends, after a progress message with the same contents.
  bool attempt(const std::function<void()>& save, std::uint64_t step, bool last);

 private:
  void warn(const std::string& failure);
  bool ends_run(bool last) const { return last || failures_ >= most_failures; }
  std::string describe_end(std::uint64_t step) const;
  std::string end_hint(const std::string& remedy, std::uint64_t step) const;
  std::string newest_checkpoint(std::uint64_t step) const;

  Progress& progress_;
  const RunDirectory& directory_;
  std::size_t failures_ = 0;  ///< consecutive
};

}  // namespace tapestry
