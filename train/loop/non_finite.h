// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "autograd/tensor.h"
#include "data/batch.h"
#include "data/corpus.h"
#include "data/text/tokenizer.h"
#include "layers/parameters.h"
#include "optim/optimizer.h"
#include "train/config/config.h"
#include "train/parallel/process_group.h"

namespace tapestry {

/// The hint for errors about divergence and about non-finite parameters.
inline constexpr const char* smaller_steps_hint =
    "try a smaller schedule.learning_rate or a longer warmup_steps";

/// The hint for errors about a non-finite loss or gradient.
///
/// updates  number of updates of the parameters so far; before the first one, the learning rate
///          cannot be the cause
const char* non_finite_hint(std::uint64_t updates);

/// "nan", "-inf" or a finite number. The sign of a NaN is left out, since it has no meaning.
std::string value_text(double value);

/// Computes the loss of one batch of a step and records it on the tape of this thread.
///
/// batch  a batch of the step, or a single example of it
/// index  index of the batch in the step, from 0: it keys the random numbers of dropout
using BatchLoss = std::function<Tensor(const Batch& batch, std::size_t index)>;

/// The origin of a non-finite loss or gradient.
struct NonFiniteOrigin {
  /// Layer, operation, position and value ranges of the first operation with a non-finite value;
  /// empty if every operation is finite and only the sum of gradients overflows.
  std::string operation;
  std::vector<std::size_t> examples;  ///< indices of training examples, in ascending order
  bool by_themselves = false;  ///< whether each example causes it; if not, `examples` is the batch
};

/// Repeats the step with an AnomalyDetector: batch by batch, then the examples of the first failing
/// batch one by one. Parameters do not change; gradients are cleared.
///
/// rules  of the batches; the epoch is taken from each batch
NonFiniteOrigin find_non_finite_origin(const BatchLoss& loss, const Examples& examples,
                                       const BatchRules& rules, const std::vector<Batch>& batches,
                                       Parameters& parameters);

/// The origin as lines, each after a line feed and two spaces: "\n  first in ...\n  each of
/// training pairs 3, 17 and 20 causes it by itself", with the task's noun for examples. Examples
/// are counted from 1; at most eight are named.
std::string in_words(const NonFiniteOrigin& origin, const Config& config);

/// The complete report, with the text, labels or range of pixels of each example.
std::string to_text(const NonFiniteOrigin& origin, const Examples& examples, const Config& config,
                    const TextCodec& codec);

/// "head.weight has a value that is not finite", for the first non-finite tensor of the parameters,
/// buffers or optimizer state; nullopt if all are finite. An update can overflow even if loss and
/// gradient are finite. All processes of a group must call this function, since each process has
/// the optimizer state of one shard. All processes get the same result.
std::optional<std::string> find_non_finite_state(const Parameters& parameters,
                                                 const Optimizer& optimizer,
                                                 ProcessGroup& group = single_process());

}  // namespace tapestry
