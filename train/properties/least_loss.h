#pragma once

#include "data/batch.h"

namespace tapestry {

/// The mean loss that no model of a batch can get below: where the same has been read and different
/// labels follow, as behind the beginning of a text, it can do no better than tell how often each
/// does.
///
/// causal  a label is told from the inputs up to its own position, not from all of its row
double least_loss(const Batch& batch, bool causal);

}  // namespace tapestry
