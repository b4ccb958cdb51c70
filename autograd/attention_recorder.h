#pragma once

#include <string>
#include <vector>

#include "autograd/error.h"
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
  /// Becomes the active recorder of this thread.
  AttentionRecorder() : outer_(active_) { active_ = this; }
  /// Makes the recorder around this one active again.
  ~AttentionRecorder() { active_ = outer_; }
  AttentionRecorder(const AttentionRecorder&) = delete;
  AttentionRecorder& operator=(const AttentionRecorder&) = delete;

  /// The weights recorded so far, in call order.
  const std::vector<RecordedAttention>& records() const { return records_; }

  /// The active recorder of this thread, or null.
  static AttentionRecorder* active() { return active_; }
  /// For operations: records the weights of a call in the current layer.
  void add(const Tensor& weights) { records_.push_back({current_layer_path(), weights}); }

 private:
  static inline constinit thread_local AttentionRecorder* active_ = nullptr;

  AttentionRecorder* outer_;
  std::vector<RecordedAttention> records_;
};

}  // namespace tapestry
