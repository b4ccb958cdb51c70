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

/// Computes the loss of one batch of a step and records it on the tape of this thread.
///
/// batch  a batch of the step, or a single sentence of it
/// index  index of the batch in the step, from 0: it keys the random numbers of dropout
using BatchLoss = std::function<Tensor(const Batch& batch, std::size_t index)>;

/// The origin of a loss or a gradient that is not finite.
struct NonFiniteOrigin {
  /// Layer, operation, position and value ranges of the first operation with such a value; empty if
  /// every single operation is finite, as when the accumulated gradient overflows.
  std::string operation;
  std::vector<std::size_t> pairs;  ///< training pairs that give such a value individually
  bool by_themselves = false;      ///< false: no single pair does, `pairs` has the whole batch
};

/// Repeats the step with an AnomalyDetector, batch by batch, and then the sentences of the first
/// failing batch one by one. Parameters do not change; gradients are cleared.
NonFiniteOrigin find_non_finite_origin(const BatchLoss& loss, const std::vector<Example>& pairs,
                                       const BatchRules& rules, const std::vector<Batch>& batches,
                                       Parameters& parameters);

/// The origin as the end of a sentence: "; first in ...; training pairs 3, 17 and 20 give it by
/// themselves". Pairs are counted from 1; at most eight are named.
std::string in_words(const NonFiniteOrigin& origin);

/// The complete report, with the text of each pair.
std::string to_text(const NonFiniteOrigin& origin, const std::vector<Example>& pairs,
                    const TextCodec& codec);

/// "head.weight has a value that is not finite", for the first such tensor of the parameters,
/// buffers or optimizer state; nullopt if all are finite. An update can overflow even if loss and
/// gradient are finite.
std::optional<std::string> find_non_finite_state(const Parameters& parameters,
                                                 const Optimizer& optimizer);

}  // namespace tapestry
