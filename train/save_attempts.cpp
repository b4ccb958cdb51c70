#include "train/save_attempts.h"

#include <fmt/format.h>

#include <new>

#include "train/error.h"

namespace tapestry {

bool SaveAttempts::attempt(const std::function<void()>& save, bool last) {
  try {
    save();
    failures_ = 0;
    return true;
  } catch (const OutputError& error) {
    warn_or_rethrow(error.what(), last);
  } catch (const std::bad_alloc&) {
    warn_or_rethrow("no memory for a checkpoint", last);
  }
  return false;
}

/// To be called from an exception handler.
void SaveAttempts::warn_or_rethrow(const char* failure, bool last) {
  ++failures_;
  if (last || failures_ >= most_failures) throw;
  progress_.message(
      fmt::format("warning: not saved: {}; training continues ({} failed save{} in a row; the run "
                  "stops after {})",
                  failure, failures_, failures_ == 1 ? "" : "s", most_failures));
}

}  // namespace tapestry
