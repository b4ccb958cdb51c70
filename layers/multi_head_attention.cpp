#include "layers/multi_head_attention.h"

#include <fmt/format.h>

#include "autograd/error.h"
#include "autograd/layer_path.h"
#include "autograd/ops/attention.h"
#include "autograd/tape.h"

namespace tapestry {

MultiHeadAttention::MultiHeadAttention(const Scope& scope, std::size_t d_model,
                                       std::size_t num_heads, double dropout)
    : path_(&scope.path()),
      num_heads_(num_heads),
      dropout_(dropout),
      q_proj_(scope / "q_proj", d_model, d_model),
      k_proj_(scope / "k_proj", d_model, d_model),
      v_proj_(scope / "v_proj", d_model, d_model),
      out_proj_(scope / "out_proj", d_model, d_model) {
  if (num_heads == 0 || d_model % num_heads != 0) {
    const LayerPath here(*path_);
    throw ShapeError(fmt::format(
        "multi-head attention: d_model {} is not a multiple of num_heads {}", d_model, num_heads));
  }
}

Tensor MultiHeadAttention::operator()(const Tensor& queries, const Tensor& memory,
                                      const AttentionMask& mask, const RandomStream& random) const {
  const LayerPath here(*path_);
  // One by one: the order of evaluation of arguments is up to the compiler.
  const Tensor q = q_proj_(queries);
  const Tensor k = k_proj_(memory);
  const Tensor v = v_proj_(memory);
  return out_proj_(scaled_dot_product_attention(q, k, v,
                                                {.num_heads = num_heads_,
                                                 .mask = mask,
                                                 .dropout = dropout_,
                                                 .random = random.named(*path_)}));
}

Tensor MultiHeadAttention::weights(const Tensor& queries, const Tensor& memory,
                                   const AttentionMask& mask) const {
  const LayerPath here(*path_);
  const TapePause nothing_is_recorded;
  const Tensor q = q_proj_(queries);
  const Tensor k = k_proj_(memory);
  return attention_weights(q, k, {.num_heads = num_heads_, .mask = mask});
}

}  // namespace tapestry
