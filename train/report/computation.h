// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "autograd/attention_trace.h"
#include "autograd/ids.h"
#include "autograd/tensor.h"
#include "data/batch.h"
#include "data/text/tokenizer.h"
#include "layers/model.h"
#include "train/config/config.h"
#include "train/tasks/task.h"

namespace tapestry {

/// An input of a recorded operation: the output of an earlier step, a parameter, or a constant such
/// as a table of positions or an image.
struct TracedInput {
  std::optional<std::size_t> step;  ///< index of the step with this output
  std::string parameter;            ///< the name of the parameter; empty for other inputs
  Tensor value;                     ///< the values that the operation has read
};

/// A recorded operation, with the gradient of the loss with respect to its output.
struct TracedStep {
  std::string operation;            ///< its name, such as "linear"
  std::string formula;              ///< see RecordedCall
  std::string derivative;           ///< see RecordedCall
  std::string layer;                ///< path of the layer; empty outside of layers
  std::vector<TracedInput> inputs;  ///< without absent inputs
  Tensor output;                    ///< its output
  Tensor gradient;                  ///< dL/doutput; absent if the loss does not depend on it
  std::shared_ptr<const AttentionTrace> attention;  ///< the steps inside; null for other operations
};

/// The forward and backward pass of one batch.
struct ComputationTrace {
  std::vector<TracedStep> steps;  ///< the operations that a tape recorded, in their order
  Tensor logits;                  ///< (rows, labels per row, vocabulary or classes)
  double loss = 0.0;              ///< the loss of the network (Network::loss)
};

/// Runs the model forward and backward as in inference, without dropout and label smoothing, and
/// keeps what each operation computes. The logits are the input of the loss's cross entropy, if it
/// has one. Overwrites the gradients of model.parameters.
///
/// labels  (rows, labels per row); no_label: no loss at the position
/// throws  ValueError if no position has a label.
ComputationTrace trace_computation(Model& model, const NetworkInput& input, const Ids& labels);

/// Contents of the page of `tapestry explain`: one input on its way through a model and back.
struct ExplainedComputation {
  const Config& config;           ///< config of the model
  const TextCodec& codec;         ///< between text and ids
  const Model& model;             ///< with the gradients of the trace
  const Batch& batch;             ///< batch of one example, with the labels of the loss
  const ComputationTrace& trace;  ///< trace of the batch
  std::string origin;             ///< "runs/copy/checkpoints/step-00002000.h5, step 2000"
  std::string labels;             ///< where the labels come from, in words
};

/// The data of the page, or of `--json`: the input, each step with formula, output and gradient,
/// the steps of attention, parameters and predictions.
///
/// top    number of most likely predictions of each position
/// exact  true, for --json: all digits of each number. false, for the page: 6 digits, or 4 in large
///        tensors; null for a number that was not computed; "inf" and "-inf"
nlohmann::ordered_json computation_json(const ExplainedComputation& explained, std::size_t top,
                                        bool exact);

}  // namespace tapestry
