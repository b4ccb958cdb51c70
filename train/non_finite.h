#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "autograd/tensor.h"
#include "data/batch.h"
#include "data/corpus.h"
#include "data/text/codec.h"
#include "layers/parameters.h"
#include "optim/optimizer.h"

namespace tapestry {

/// The loss of one of the batches of a step, recorded on the tape of this thread.
///
/// batch  a batch of the step, or one of its sentences alone
/// index  which batch of the step that is, from 0: it keys the random numbers of dropout
using BatchLoss = std::function<Tensor(const Batch& batch, std::size_t index)>;

/// Where a loss or a gradient that is not finite comes from.
struct NonFiniteOrigin {
  /// Layer, operation, place and ranges of the first operation with such a value; empty if every
  /// operation by itself is finite, as when a sum of gradients overflows.
  std::string operation;
  std::vector<std::size_t> pairs;  ///< training pairs, those that give such a value by themselves
  bool by_themselves = false;      ///< false: `pairs` are all of the batch, none does so alone
};

/// Repeats the step under an AnomalyDetector, batch by batch, and then the sentences of the batch
/// at fault one by one. Weights stay as they are, gradients are cleared.
NonFiniteOrigin find_non_finite_origin(const BatchLoss& loss, const std::vector<Example>& pairs,
                                       const BatchRules& rules, const std::vector<Batch>& batches,
                                       Parameters& parameters);

/// As the end of a sentence: "; first in ...; training pairs 3, 17 and 20 give it by themselves".
/// Pairs are counted from 1; at most eight are named.
std::string in_words(const NonFiniteOrigin& origin);

/// Everything, with the text of each pair.
std::string to_text(const NonFiniteOrigin& origin, const std::vector<Example>& pairs,
                    const TextCodec& codec);

/// "head.weight has a value that is not finite", of the first such tensor that a checkpoint would
/// hold, or nothing: an update can overflow where loss and gradient did not.
std::optional<std::string> find_non_finite_state(const Parameters& parameters,
                                                 const Optimizer& optimizer);

}  // namespace tapestry
