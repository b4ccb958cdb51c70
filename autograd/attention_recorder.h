#pragma once

#include <string>
#include <vector>

#include "autograd/error.h"
#include "autograd/tensor.h"

namespace tapestry {

/// The weights of one call of attention.
struct RecordedAttention {
  std::string path;  ///< of the layer, such as "encoder.layers.0.self_attn"
  Tensor weights;    ///< (batch, heads, n_q, n_k), without dropout and outside any tape
};

/// Keeps the weights of every call of attention on its thread while it is alive, for every kind of
/// score.
///
///     const AttentionRecorder recorder;
///     model.encode(source);
///     for (const auto& [path, weights] : recorder.records()) show(path, weights);
///
/// The weights are computed once more for it, because attention itself does not store them all.
/// Recorders nest; the innermost one records. Without one, a call of attention tests one pointer.
class AttentionRecorder {
 public:
  AttentionRecorder() : outer_(active_) { active_ = this; }
  ~AttentionRecorder() { active_ = outer_; }
  AttentionRecorder(const AttentionRecorder&) = delete;
  AttentionRecorder& operator=(const AttentionRecorder&) = delete;

  /// In the order of the calls.
  const std::vector<RecordedAttention>& records() const { return records_; }

  /// The recorder that records on this thread, or null.
  static AttentionRecorder* active() { return active_; }
  /// For operations: records the weights of a call in the running layer.
  void add(const Tensor& weights) { records_.push_back({current_layer_path(), weights}); }

 private:
  static inline constinit thread_local AttentionRecorder* active_ = nullptr;

  AttentionRecorder* outer_;
  std::vector<RecordedAttention> records_;
};

}  // namespace tapestry
