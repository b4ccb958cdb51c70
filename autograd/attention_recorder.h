#pragma once

#include <string>
#include <vector>

#include "autograd/error.h"
#include "autograd/execution_context.h"
#include "autograd/tensor.h"

namespace tapestry {

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
