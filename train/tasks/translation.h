#pragma once

#include "train/tasks/task.h"

namespace tapestry {

/// model.kind: seq2seq. From a sequence of tokens to another, with a Transformer: learns pairs of
/// sentences or generated pairs of sequences, translates greedily, and is scored by the share of
/// exact matches beside the usual scores.
const Task& translation();

}  // namespace tapestry
