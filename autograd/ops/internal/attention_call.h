#pragma once

#include <memory>
#include <vector>

#include "autograd/attention_options.h"
#include "autograd/attention_trace.h"
#include "autograd/gradient.h"
#include "autograd/kernels/attention.h"
#include "autograd/kernels/memory.h"
#include "autograd/operation.h"

/// Shared by the attention operations, scaled dot-product and additive. Internal.
namespace tapestry {

/// Throws, naming `operation`, unless q, k and the mask fit each other and the options are valid.
void require_queries_and_keys(const char* operation, const Tensor& q, const Tensor& k,
                              const AttentionOptions& options);
/// The number of keys that a call reads.
std::size_t key_count(const Tensor& k, const AttentionOptions& options);
/// Throws unless there is one value for each key.
void require_values(const char* operation, const Tensor& k, const Tensor& v, std::size_t num_heads);

/// Operands of one call; `w` is set only for additive scores.
struct AttentionInputs {
  Tensor q, k, v, w{};
};

struct AttentionGradients {
  Gradient dq, dk, dv, dw{};
};

/// One attention call, with everything that its backward pass needs.
class AttentionCall {
 public:
  /// `scale` multiplies the scores unless `options.scale` is set.
  AttentionCall(AttentionOptions options, double scale);

  /// Only a recorded call saves its weights for backward and can be traced.
  ///
  /// throws  ValueError for a recorded call with options.num_keys
  Tensor forward(const ForwardContext& context, const AttentionInputs& inputs);
  void backward(const Tensor& dy, const AttentionGradients& gradients) const;
  /// The weights without dropout, (batch, num_heads, n_q, n_k); v is not needed.
  Tensor weights(const AttentionInputs& inputs);

 private:
  using KeyRanges = std::vector<kernels::KeyRange, kernels::PoolAllocator<kernels::KeyRange>>;

  void start_recording(const ForwardContext& context);
  void keep(const AttentionInputs& inputs);
  template <class T>
  void run_forward(Tensor& y);
  kernels::AttentionProblem problem() const;
  template <class T>
  kernels::AttentionOperands<T> operands() const;
  template <class T>
  void run_backward(const Tensor& dy, const kernels::AttentionTargets<T>& targets) const;

  AttentionOptions options_;
  double scale_;
  AttentionInputs inputs_{};
  KeyRanges ranges_{};  // range of keys of each query, (batch, n_q)
  Tensor saved_{};      // weights for backward if they are few; else recomputed
  std::shared_ptr<AttentionTrace> trace_{};  // null without a tracer
};

}  // namespace tapestry
