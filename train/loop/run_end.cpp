#include "train/loop/run_end.h"

#include <algorithm>
#include <string>

#include "train/system/message.h"

namespace tapestry {
namespace {

std::optional<RunEnd> reason_to_end(const Interruptions& interruptions,
                                    const TrainingState& state) {
  const RunSignals* signals = interruptions.signals;
  const bool time_is_up = signals != nullptr && signals->time_is_up();
  if (time_is_up || interruptions.time.is_up(TimeLimit::Clock::now())) return RunEnd::time;
  if (signals != nullptr && signals->stop() != 0) return RunEnd::signal;
  const bool is_reached = interruptions.last_step && state.step >= *interruptions.last_step;
  if (is_reached && !state.validation_pending) return RunEnd::last_step;
  return std::nullopt;
}

}  // namespace

std::optional<RunEnd> agree_to_end(const Interruptions& interruptions, const TrainingState& state,
                                   ProcessGroup& group) {
  const auto own = reason_to_end(interruptions, state);
  if (group.size() == 1) return own;
  const auto reasons = group.all_gather([&] {
    MessageWriter reason;
    if (own) {
      reason.put(static_cast<int>(*own));
      reason.put(interruptions.signals != nullptr ? interruptions.signals->stop() : 0);
    }
    return reason.take();
  });
  const auto first = std::ranges::find_if_not(reasons, &std::string::empty);
  if (first == reasons.end()) return std::nullopt;
  MessageReader reason(*first);
  const auto end = static_cast<RunEnd>(reason.get<int>());
  if (end == RunEnd::signal && interruptions.signals != nullptr) {
    interruptions.signals->stop_by(reason.get<int>());
  }
  return end;
}

}  // namespace tapestry
