#pragma once

#include "autograd/ids.h"
#include "data/batch.h"
#include "layers/network.h"

/// From the plain batches of data/ to what the layers take.
namespace tapestry {

NetworkInput network_input(const Batch& batch);
/// (rows, target_length)
Ids label_ids(const Batch& batch);

}  // namespace tapestry
