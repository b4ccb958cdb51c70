#include "train/loop/save_attempts.h"

#include <fmt/format.h>

#include <new>
#include <vector>

#include "train/base/error.h"
#include "train/base/format.h"
#include "train/base/program_name.h"

namespace tapestry {

bool SaveAttempts::attempt(const std::function<void()>& save, std::uint64_t step, bool last) {
  constexpr const char* no_memory = "no memory for a checkpoint";
  try {
    save();
    failures_ = 0;
    return true;
  } catch (const OutputError& error) {
    ++failures_;
    if (ends_run(last)) {
      throw OutputError(fmt::format("{}; {}", error.what(), describe_end(step)),
                        end_hint(error.hint(), step));
    }
    warn(error.what());
  } catch (const std::bad_alloc&) {
    ++failures_;
    if (ends_run(last)) {
      progress_.message(
          fmt::format("not saved: {}; {}; {}", no_memory, describe_end(step), end_hint("", step)));
      throw;
    }
    warn(no_memory);
  }
  return false;
}

void SaveAttempts::warn(const std::string& failure) {
  progress_.message(
      fmt::format("warning: not saved: {}; training continues ({} failed save{} in a row; the run "
                  "stops after {})",
                  failure, failures_, failures_ == 1 ? "" : "s", most_failures));
}

/// Why the run ends, where, and what is left of it.
std::string SaveAttempts::describe_end(std::uint64_t step) const {
  const bool third = failures_ >= most_failures;
  const std::string reason =
      third ? fmt::format("{} saves in a row have failed", failures_) : "its last save has failed";
  const std::string newest = newest_checkpoint(step);
  return fmt::format(
      "the run ends at step {}, since {}; {}", format_count(step), reason,
      newest.empty() ? "it has no checkpoint" : "its newest checkpoint is " + newest);
}

/// remedy  how to prevent the failure; may be empty
std::string SaveAttempts::end_hint(const std::string& remedy, std::uint64_t step) const {
  const std::string again = newest_checkpoint(step).empty()
                                ? "start the run again"
                                : fmt::format("resume with `{} train --resume {}`", program_name(),
                                              format_argument(directory_.path().string()));
  return remedy.empty() ? again : fmt::format("{}, then {}", remedy, again);
}

/// The path of the newest checkpoint up to `step`; empty if there is none.
std::string SaveAttempts::newest_checkpoint(std::uint64_t step) const try {
  std::vector<std::uint64_t> steps = directory_.steps();
  std::erase_if(steps, [&](std::uint64_t other) { return other > step; });
  return steps.empty() ? "" : directory_.checkpoint_path(steps.back()).string();
} catch (const CheckpointError&) {  // the folder cannot be listed
  return "";
}

}  // namespace tapestry
