#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "data/batch.h"
#include "data/text/codec.h"
#include "train/config/config.h"
#include "train/report/computation_trace.h"
#include "train/tasks/task.h"

namespace tapestry {

/// Contents of the page of `tapestry explain`: one input on its way through a model and back.
struct ExplainedComputation {
  const Config& config;           ///< of the model
  const TextCodec& codec;         ///< between text and ids
  const Model& model;             ///< with the gradients of the trace
  const Batch& batch;             ///< of one example, with the labels of the loss
  const ComputationTrace& trace;  ///< of the batch
  std::string origin;             ///< "runs/copy/checkpoints/step-00002000.h5, step 2000"
  std::string labels;             ///< where the labels come from, in words
};

/// The data of the page, or of `--json`: the input, each step with formula, output and gradient, the
/// steps of attention, parameters and predictions.
///
/// top    number of most likely predictions of each position
/// exact  all digits of each number, as --json has them; else 6, or 4 in large tensors, and null for
///        what was not computed, "inf" and "-inf", as the page has them
nlohmann::ordered_json computation_json(const ExplainedComputation& explained, std::size_t top,
                                        bool exact);

}  // namespace tapestry
