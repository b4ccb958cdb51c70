#pragma once

#include <cstdint>
#include <vector>

#include "autograd/ids.h"
#include "data/batch.h"
#include "layers/model.h"

/// Converts the batches of data/ to the inputs of layers.
namespace tapestry {

/// dtype  element type of the image tensor
NetworkInput network_input(const Batch& batch, DType dtype);
/// (rows, target_length)
Ids label_ids(const Batch& batch);

/// The index of the largest logit of each row of logits (..., n).
std::vector<std::int32_t> largest_of_rows(const Tensor& logits);

}  // namespace tapestry
