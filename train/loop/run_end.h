#pragma once

#include <optional>

#include "train/checkpoint/training_state.h"
#include "train/parallel/process_group.h"
#include "train/system/interruptions.h"

namespace tapestry {

/// Why training ends: all steps are done (or train.patience is exhausted), a signal,
/// train.max_time, or Interruptions::last_step.
enum class RunEnd { finished, signal, time, last_step };

/// Why a run with more steps to do ends now: the reason of the lowest rank that has one, in all
/// processes; nullopt if none has. A signal that another process received counts as received by
/// this one.
std::optional<RunEnd> agree_to_end(const Interruptions& interruptions, const TrainingState& state,
                                   ProcessGroup& group);

}  // namespace tapestry
