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

/// The hint of errors about parameters that are not finite and about divergence.
inline constexpr const char* smaller_steps_hint =
    "try a smaller schedule.learning_rate or a longer warmup_steps";

/// The hint of errors about a loss or a gradient that is not finite.
///
/// updates  how often the parameters have been updated; without an update the learning rate cannot
///          be the reason
const char* non_finite_hint(std::uint64_t updates);

/// "nan", "-inf" or a finite number. The sign of a NaN is left out, since it has no meaning.
std::string value_text(double value);

/// Computes the loss of one batch of a step and records it on the tape of this thread.
///
/// batch  a batch of the step, or a single example of it
/// index  index of the batch in the step, from 0: it keys the random numbers of dropout
using BatchLoss = std::function<Tensor(const Batch& batch, std::size_t index)>;

/// The origin of a loss or a gradient that is not finite.
struct NonFiniteOrigin {
  /// Layer, operation, position and value ranges of the first operation with such a value; empty if
  /// every single operation is finite, as when the accumulated gradient overflows.
  std::string operation;
  std::vector<std::size_t> examples;  ///< training examples that give such a value individually
  bool by_themselves = false;  ///< false: no single example does, `examples` has the whole batch
};

/// Repeats the step with an AnomalyDetector, batch by batch, and then the examples of the first
/// failing batch one by one. Parameters do not change; gradients are cleared.
///
/// rules  of the batches; each batch sets the epoch
NonFiniteOrigin find_non_finite_origin(const BatchLoss& loss, const Examples& examples,
                                       const BatchRules& rules, const std::vector<Batch>& batches,
                                       Parameters& parameters);

/// The origin as the end of a sentence: "; first in ...; each of training pairs 3, 17 and
/// 20 causes it by itself", with the noun for examples of the task. Examples are counted from 1; at
/// most eight are named.
std::string in_words(const NonFiniteOrigin& origin, const Config& config);

/// The complete report, with the text, labels or range of pixels of each example.
std::string to_text(const NonFiniteOrigin& origin, const Examples& examples, const Config& config,
                    const TextCodec& codec);

/// "head.weight has a value that is not finite", for the first such tensor of the parameters,
/// buffers or optimizer state; nullopt if all are finite. An update can overflow even if loss and
/// gradient are finite. All processes of a group call this, since each has the optimizer state of
/// one shard; all get the same result.
std::optional<std::string> find_non_finite_state(const Parameters& parameters,
                                                 const Optimizer& optimizer,
                                                 ProcessGroup& group = single_process());

}  // namespace tapestry
