// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "autograd/ids.h"
#include "data/batch.h"
#include "layers/model.h"

/// Converts the batches of data/ to the inputs of layers.
namespace tapestry {

/// dtype  element type of the image tensor
NetworkInput network_input(const Batch& batch, DType dtype);
/// (rows, target_length)
Ids label_ids(const Batch& batch);

}  // namespace tapestry
