#pragma once

#include "autograd/ids.h"
#include "data/batch.h"
#include "layers/token_batch.h"

/// From the plain batches of data/ to what the layers take.
namespace tapestry {

TokenBatch source_tokens(const Batch& batch);
TokenBatch decoder_tokens(const Batch& batch);
/// (rows, target_length)
Ids label_ids(const Batch& batch);

}  // namespace tapestry
