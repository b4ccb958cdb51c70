#include "layers/multi_head_attention.h"

#include <fmt/format.h>

#include "autograd/error.h"
#include "autograd/ops/attention.h"
#include "autograd/ops/linear.h"

namespace tapestry {
namespace {

bool has_parameters(AttentionScore score) {
  return score == AttentionScore::additive || score == AttentionScore::bilinear;
}

/// Bilinear scores are unscaled dot products of keys and W q.
bool is_scaled(AttentionScore score) { return score == AttentionScore::scaled_dot_product; }

MultiHeadAttentionOptions checked(const MultiHeadAttentionOptions& o, const Scope& scope,
                                  std::size_t d_model) {
  const LayerPath here(scope.path());
  if (o.num_heads == 0 || (o.d_head == 0 && d_model % o.num_heads != 0)) {
    throw ShapeError(
        fmt::format("multi-head attention: d_model {} is not a multiple of num_heads {}", d_model,
                    o.num_heads));
  }
  if (o.kind == AttentionKind::parameter_free &&
      (o.num_heads != 1 || o.d_head != 0 || has_parameters(o.score))) {
    throw ValueError(fmt::format(
        "parameter-free attention: num_heads is {} and d_head {}, the score has {}parameters, "
        "expected 1, 0 and a score without",
        o.num_heads, o.d_head, has_parameters(o.score) ? "" : "no "));
  }
  return o;
}

Tensor score_weight(const Scope& scope, std::size_t d_model, const MultiHeadAttentionOptions& o) {
  const std::size_t heads = o.num_heads, d_head = head_width(d_model, o);
  if (o.score == AttentionScore::additive) {
    return scope.parameter("weight", {heads, d_head}, glorot_uniform(d_head, 1));
  }
  if (o.score == AttentionScore::bilinear) {
    return scope.parameter("weight", {heads, d_head, d_head},
                           normal_initializer(1.0 / static_cast<double>(d_head)));
  }
  return {};
}

}  // namespace

MultiHeadAttention::Projections::Projections(const Scope& scope, std::size_t d_model,
                                             std::size_t width)
    : q(scope / "q_proj", d_model, width),
      k(scope / "k_proj", d_model, width),
      v(scope / "v_proj", d_model, width),
      out(scope / "out_proj", width, d_model) {}

MultiHeadAttention::MultiHeadAttention(const Scope& scope, std::size_t d_model,
                                       const MultiHeadAttentionOptions& options)
    : path_(&scope.path()), options_(checked(options, scope, d_model)) {
  if (options.kind == AttentionKind::multi_head) {
    projections_.emplace(scope, d_model, options.num_heads * head_width(d_model, options));
  }
  score_weight_ = score_weight(scope / "score", d_model, options);
}

AttentionOptions MultiHeadAttention::operation_options(const AttentionMask& mask,
                                                       const Mode& mode) const {
  AttentionOptions operation{.num_heads = options_.num_heads,
                             .mask = mask,
                             .alibi = options_.alibi,
                             .dropout = options_.dropout,
                             .random = mode.dropout_stream(*path_, options_.dropout)};
  if (options_.window != 0) operation.mask = mask & AttentionMask::window(options_.window);
  if (!is_scaled(options_.score)) operation.scale = 1.0;
  return operation;
}

Tensor MultiHeadAttention::operator()(const Tensor& queries, const Tensor& memory,
                                      const AttentionMask& mask, const Mode& mode) const {
  const LayerPath here(*path_);
  const AttentionOptions operation = operation_options(mask, mode);
  if (!projections_) return attend(queries, memory, memory, operation);
  // In separate statements, since C++ does not specify the evaluation order of arguments.
  const Tensor q = projections_->q(queries);
  const Tensor k = projections_->k(memory);
  const Tensor v = projections_->v(memory);
  return projections_->out(attend(q, k, v, operation));
}

Tensor MultiHeadAttention::attend(Tensor q, Tensor k, const Tensor& v,
                                  const AttentionOptions& operation) const {
  if (options_.score == AttentionScore::bilinear) q = head_linear(q, score_weight_);
  if (options_.rotary) {
    // If there are fewer queries than keys, the queries have the last positions, as in masks.
    const auto first = static_cast<std::ptrdiff_t>(k.shape()[1] - q.shape()[1]);
    q = rotary(q, {.num_heads = options_.num_heads, .first_position = first});
    k = rotary(k, {.num_heads = options_.num_heads});
  }
  if (options_.score == AttentionScore::additive) {
    return additive_attention(q, k, v, score_weight_, operation);
  }
  return scaled_dot_product_attention(q, k, v, operation);
}

}  // namespace tapestry
