#include "layers/multi_head_attention.h"

#include <fmt/format.h>

#include "autograd/error.h"
#include "autograd/layer_path.h"
#include "autograd/ops/additive_attention.h"
#include "autograd/ops/head_linear.h"

namespace tapestry {
namespace {

Tensor score_weight(const Scope& scope, const TransformerOptions& o) {
  const std::size_t heads = o.num_heads, d_head = o.d_model / o.num_heads;
  if (o.score == AttentionScore::additive) {
    return scope.parameter("weight", {heads, d_head}, glorot_uniform(d_head, 1));
  }
  if (o.score == AttentionScore::bilinear) {
    return scope.parameter("weight", {heads, d_head, d_head},
                           normal_initializer(1.0 / static_cast<double>(d_head)));
  }
  return {};
}

const TransformerOptions& checked(const Scope& scope, const TransformerOptions& o) {
  if (o.num_heads == 0 || o.d_model % o.num_heads != 0) {
    const LayerPath here(scope.path());
    throw ShapeError(
        fmt::format("multi-head attention: d_model {} is not a multiple of num_heads {}", o.d_model,
                    o.num_heads));
  }
  return o;
}

}  // namespace

MultiHeadAttention::MultiHeadAttention(const Scope& scope, const TransformerOptions& o)
    : path_(&scope.path()),
      num_heads_(checked(scope, o).num_heads),
      dropout_(o.attention_dropout_rate()),
      score_(o.score),
      q_proj_(scope / "q_proj", o.d_model, o.d_model),
      k_proj_(scope / "k_proj", o.d_model, o.d_model),
      v_proj_(scope / "v_proj", o.d_model, o.d_model),
      out_proj_(scope / "out_proj", o.d_model, o.d_model),
      score_weight_(score_weight(scope / "score", o)) {}

Tensor MultiHeadAttention::operator()(const Tensor& queries, const Tensor& memory,
                                      const AttentionMask& mask, const RandomStream& random) const {
  const LayerPath here(*path_);
  // One by one: the order of evaluation of arguments is up to the compiler.
  const Tensor q = q_proj_(queries);
  const Tensor k = k_proj_(memory);
  const Tensor v = v_proj_(memory);
  return out_proj_(attend(q, k, v,
                          {.num_heads = num_heads_,
                           .mask = mask,
                           .dropout = dropout_,
                           .random = random.named(*path_)}));
}

Tensor MultiHeadAttention::attend(const Tensor& q, const Tensor& k, const Tensor& v,
                                  AttentionOptions options) const {
  switch (score_) {
    case AttentionScore::scaled_dot_product:
      return scaled_dot_product_attention(q, k, v, options);
    case AttentionScore::dot_product:
      options.scale = 1.0;
      return scaled_dot_product_attention(q, k, v, options);
    case AttentionScore::additive:
      return additive_attention(q, k, v, score_weight_, options);
    case AttentionScore::bilinear:
      options.scale = 1.0;
      return scaled_dot_product_attention(head_linear(q, score_weight_), k, v, options);
  }
  throw ValueError("multi-head attention: unknown score");
}

}  // namespace tapestry
