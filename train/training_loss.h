#pragma once

#include "autograd/ops/losses.h"
#include "autograd/random.h"
#include "data/batch.h"
#include "train/model.h"

namespace tapestry {

/// The objective of a batch: cross entropy of the labels given the source and the labels before.
///
/// random   keys dropout
/// nll_sum  if not null, gets the sum of -log p(label), without label smoothing
Tensor training_loss(const Model& model, const Batch& batch, const CrossEntropyOptions& options,
                     const RandomStream& random, double* nll_sum = nullptr);

}  // namespace tapestry
