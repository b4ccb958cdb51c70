#pragma once

#include <string>
#include <vector>

#include "train/checkpoint.h"
#include "train/model.h"

namespace tapestry {

/// Copies the parameters of `from` that have name and shape of one of `to`, converted to its
/// element type, but for those of a head that tells other classes. Returns lines for the user: what
/// was loaded, what is new, what was left.
///
/// origin   names `from`
/// targets  the words or classes that `to` predicts
/// throws   CheckpointError if there is none to copy; nothing has changed then
std::vector<std::string> take_over(const TrainedModel& from, const std::string& origin,
                                   const Vocabulary& targets, Model& to);

}  // namespace tapestry
