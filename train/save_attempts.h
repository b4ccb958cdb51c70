#pragma once

#include <cstddef>
#include <functional>

#include "train/progress.h"

namespace tapestry {

/// What becomes of a run whose checkpoint could not be saved: it goes on, with a warning, for the
/// next save may do better. The third failure in a row ends it, and so does that of the last save.
class SaveAttempts {
 public:
  static constexpr std::size_t most_failures = 3;  ///< in a row

  /// `progress` is told of failures; it must outlive the object.
  explicit SaveAttempts(Progress& progress) : progress_(progress) {}

  /// Calls `save`; returns whether it got to its end.
  /// last    whether there will be no other attempt
  /// throws  OutputError or std::bad_alloc, as `save` did.
  bool attempt(const std::function<void()>& save, bool last);

 private:
  void warn_or_rethrow(const char* failure, bool last);

  Progress& progress_;
  std::size_t failures_ = 0;  ///< in a row
};

}  // namespace tapestry
