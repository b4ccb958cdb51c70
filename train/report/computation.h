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
  std::string parameter;            ///< name of the parameter; empty for other inputs
  Tensor value;                     ///< values that the operation read
};

/// A recorded operation, with the gradient of the loss with respect to its output.
struct TracedStep {
  std::string operation;            ///< name of the operation, such as "linear"
  std::string formula;              ///< see RecordedCall
  std::string derivative;           ///< see RecordedCall
  std::string layer;                ///< path of the layer; empty outside of layers
  std::vector<TracedInput> inputs;  ///< defined inputs of the operation
  Tensor output;                    ///< output of the operation
  Tensor gradient;                  ///< dL/doutput; undefined if the loss does not depend on it
  std::shared_ptr<const AttentionTrace> attention;  ///< intermediate values of attention, or null
};

/// The forward and backward pass of one batch.
struct ComputationTrace {
  std::vector<TracedStep> steps;  ///< recorded operations, in the order of the tape
  Tensor logits;                  ///< (rows, labels per row, vocabulary or classes)
  double loss = 0.0;              ///< mean loss, see Network::loss()
};

/// Runs a forward and a backward pass in inference mode, without dropout and label smoothing, and
/// records each operation. The logits are the input of the last cross entropy; for a loss without
/// cross entropy, the logits are computed separately. Overwrites the gradients of model.parameters.
///
/// labels  (rows, labels per row); positions with no_label are ignored
/// throws  ValueError if no position has a label.
ComputationTrace trace_computation(Model& model, const NetworkInput& input, const Ids& labels);

/// Contents of the page of `tapestry explain`: the forward and backward pass of one input.
struct ExplainedComputation {
  const Config& config;           ///< config of the model
  const TextCodec& codec;         ///< converts between text and ids
  const Model& model;             ///< model with the gradients of the trace
  const Batch& batch;             ///< batch of one example, with the labels of the loss
  const ComputationTrace& trace;  ///< trace of the batch
  std::string origin;             ///< "runs/copy/checkpoints/step-00002000.h5, step 2000"
  std::string labels;             ///< source of the labels: "the next token of the text"
};

/// The data of the page, or of `--json`: the input; each step with formula, output and gradient;
/// intermediate values of attention; parameters and predictions.
///
/// top    number of most likely predictions at each position
/// exact  true, for `--json`: numbers have all digits. false, for the page: numbers have 6 digits,
///        or 4 in large tensors; NaN, which marks values that were not computed, is null; infinite
///        values are "inf" and "-inf"
nlohmann::ordered_json computation_json(const ExplainedComputation& explained, std::size_t top,
                                        bool exact);

}  // namespace tapestry
