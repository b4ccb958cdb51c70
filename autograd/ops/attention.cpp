#include "autograd/ops/attention.h"

#include <cmath>

#include "autograd/attention_recorder.h"
#include "autograd/operation.h"
#include "autograd/ops/detail/attention_call.h"

namespace tapestry {
namespace {

struct ScaledDotProduct {
  static constexpr const char* name = "scaled_dot_product_attention";
  AttentionCall call;

  Tensor forward(const Tensor& q, const Tensor& k, const Tensor& v) {
    return call.forward({.q = q, .k = k, .v = v});
  }
  void backward(const Tensor& dy, Gradient dq, Gradient dk, Gradient dv) const {
    call.backward(dy, {.dq = dq, .dk = dk, .dv = dv});
  }
};

AttentionCall make_call(const Tensor& q, const AttentionOptions& options) {
  const std::size_t d_k = q.shape()[2] / options.num_heads;
  return AttentionCall(options, 1.0 / std::sqrt(static_cast<double>(d_k)));
}

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options) {
  require_queries_and_keys(ScaledDotProduct::name, q, k, options);
  require_values(ScaledDotProduct::name, k, v, options.num_heads);
  if (AttentionRecorder* const recorder = AttentionRecorder::active()) [[unlikely]] {
    recorder->add(attention_weights(q, k, options));
  }
  return apply(ScaledDotProduct{make_call(q, options)}, q, k, v);
}

Tensor attention_weights(const Tensor& q, const Tensor& k, const AttentionOptions& options) {
  require_queries_and_keys(ScaledDotProduct::name, q, k, options);
  return make_call(q, options).weights({.q = q, .k = k, .v = {}});
}

}  // namespace tapestry
