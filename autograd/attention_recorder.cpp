#include "autograd/attention_recorder.h"

#include "autograd/layer_path.h"

namespace tapestry {

AttentionRecorder::AttentionRecorder() : outer_(active_) { active_ = this; }
AttentionRecorder::~AttentionRecorder() { active_ = outer_; }

void AttentionRecorder::add(const Tensor& weights) {
  records_.push_back({current_layer_path(), weights});
}

}  // namespace tapestry
