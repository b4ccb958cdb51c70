#pragma once

#include <cstdint>
#include <vector>

#include "autograd/ids.h"
#include "data/batch.h"
#include "layers/network.h"

/// From the plain batches of data/ to what the layers take.
namespace tapestry {

/// dtype  of the images
NetworkInput network_input(const Batch& batch, DType dtype);
/// (rows, target_length)
Ids label_ids(const Batch& batch);

/// From logits (..., n), where the largest of each row stands.
std::vector<std::int32_t> largest_of_rows(const Tensor& logits);

}  // namespace tapestry
