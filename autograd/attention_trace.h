// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "autograd/error.h"
#include "autograd/execution_context.h"
#include "autograd/tensor.h"

namespace tapestry {

/// The intermediate results of one recorded attention call, each of shape (batch, heads, n_q,
/// n_k). The operation is fused: without a tracer it stores at most its weights. Scores that the
/// call did not compute are NaN: it skips keys that no query of a group may attend to.
struct AttentionTrace {
  std::string path;           ///< path of the layer, such as "encoder.layers.0.self_attn"
  std::size_t num_heads = 0;  ///< number of heads, side by side in the last axis
  double scale = 1.0;         ///< factor of the products

  Tensor products;  ///< <k_j, q_i>, or <w, tanh(q_i + k_j)> of additive scores
  Tensor scores;    ///< scale * products
  Tensor biased;    ///< scores minus the distances of ALiBi; absent without ALiBi
  Tensor masked;    ///< scores, or biased, with -infinity where the mask forbids the key
  Tensor weights;   ///< softmax of each row of masked, before dropout

  Tensor dweights;  ///< gradient of the weights after dropout, set by backward; NaN if not computed
  Tensor dscores;   ///< dL/dscores, which equals dL/dmasked; 0 where the key is masked
};

/// Traces every attention call that a tape records on its thread during its lifetime.
///
///     const AttentionTracer tracer;
///     Tape tape;
///     tape.backward(loss(model(x)));
///     for (const auto& trace : tracer.traces()) show(trace->path, trace->scores, trace->dscores);
///
/// All values are intermediate results of the calls, except the products, which the same kernel
/// computes again with the factor 1. A tracer does not change the bits of the results. Tracers
/// nest; the innermost one is used. Without a tracer the overhead of an attention call is one
/// pointer test.
class AttentionTracer {
 public:
  /// The calls so far, in call order.
  const std::vector<std::shared_ptr<const AttentionTrace>>& traces() const { return traces_; }

  /// For operations: creates the trace of a new call in the current layer, which the call then
  /// fills.
  std::shared_ptr<AttentionTrace> start() {
    auto trace = std::make_shared<AttentionTrace>();
    trace->path = current_layer_path();
    traces_.push_back(trace);
    return trace;
  }

 private:
  ContextGuard<&ExecutionContext::attention_tracer> active_{this};
  std::vector<std::shared_ptr<const AttentionTrace>> traces_;
};

/// The weights of one attention call.
struct RecordedAttention {
  std::string path;  ///< path of the layer, such as "encoder.layers.0.self_attn"
  Tensor weights;    ///< (batch, heads, n_q, n_k), without dropout, not recorded on a tape
};

/// Records the weights of every attention call on its thread during its lifetime, for every kind of
/// score.
///
///     const AttentionRecorder recorder;
///     model.encode(source, mode);
///     for (const auto& [path, weights] : recorder.records()) show(path, weights);
///
/// Recorded weights are computed separately, because attention itself does not store all of them.
/// Recorders nest; the innermost one records. Without a recorder the overhead of an attention call
/// is one pointer test.
class AttentionRecorder {
 public:
  /// The weights recorded so far, in call order.
  const std::vector<RecordedAttention>& records() const { return records_; }

  /// For operations: records the weights of a call in the current layer.
  void add(const Tensor& weights) { records_.push_back({current_layer_path(), weights}); }

 private:
  ContextGuard<&ExecutionContext::attention_recorder> active_{this};
  std::vector<RecordedAttention> records_;
};

}  // namespace tapestry
