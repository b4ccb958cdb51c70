#include "layers/multi_head_attention.h"

#include <fmt/format.h>

#include "autograd/error.h"
#include "autograd/ops/attention.h"
#include "autograd/ops/linear.h"
#include "autograd/ops/shape_ops.h"

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

Tensor rotated(const Tensor& x, const MultiHeadAttentionOptions& o, std::size_t first_position) {
  if (!o.rotary) return x;
  return rotary(
      x, {.num_heads = o.num_heads, .first_position = static_cast<std::ptrdiff_t>(first_position)});
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

Tensor MultiHeadAttention::project_queries(const Tensor& x, std::size_t first_position) const {
  Tensor q = projections_ ? projections_->q(x) : x;
  if (options_.score == AttentionScore::bilinear) q = head_linear(q, score_weight_);
  return rotated(q, options_, first_position);
}

Tensor MultiHeadAttention::project_keys(const Tensor& x, std::size_t first_position) const {
  return rotated(projections_ ? projections_->k(x) : x, options_, first_position);
}

Tensor MultiHeadAttention::project_values(const Tensor& x) const {
  return projections_ ? projections_->v(x) : x;
}

Tensor MultiHeadAttention::project_output(const Tensor& y) const {
  return projections_ ? projections_->out(y) : y;
}

Tensor MultiHeadAttention::operator()(const Tensor& queries, const Tensor& memory,
                                      const AttentionMask& mask, const Mode& mode) const {
  const LayerPath here(*path_);
  const AttentionOptions operation = operation_options(mask, mode);
  // If there are fewer queries than keys, the queries have the last positions, as in masks.
  const std::size_t first = options_.rotary ? memory.shape()[1] - queries.shape()[1] : 0;
  // In separate statements, since C++ does not specify the evaluation order of arguments.
  const Tensor q = project_queries(queries, first);
  const Tensor k = project_keys(memory, 0);
  const Tensor v = project_values(memory);
  return project_output(attention(q, k, v, operation));
}

Tensor MultiHeadAttention::extend(const Tensor& x, KeyValueCache& cache) const {
  const LayerPath here(*path_);
  const std::size_t first = cache.length();
  const Tensor q = project_queries(x, first);
  const Tensor k = project_keys(x, first);
  cache.append(k, project_values(x));
  AttentionOptions operation = operation_options(AttentionMask::causal(), Mode::inference());
  operation.num_keys = cache.length();
  return project_output(attention(q, cache.keys(), cache.values(), operation));
}

KeyValueCache MultiHeadAttention::read(const Tensor& memory) const {
  const LayerPath here(*path_);
  const Tensor k = project_keys(memory, 0);
  return {k, project_values(memory)};
}

Tensor MultiHeadAttention::attend(const Tensor& queries, const KeyValueCache& memory,
                                  const AttentionMask& mask) const {
  const LayerPath here(*path_);
  AttentionOptions operation = operation_options(mask, Mode::inference());
  operation.num_keys = memory.length();
  const Tensor q = project_queries(queries, 0);
  const Shape grouped{memory.rows(), q.shape()[0] / memory.rows() * q.shape()[1], q.shape()[2]};
  const Tensor y = attention(reshape(q, grouped), memory.keys(), memory.values(), operation);
  return project_output(reshape(y, q.shape().with_last(y.shape()[2])));
}

Tensor MultiHeadAttention::attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                     const AttentionOptions& operation) const {
  if (options_.score == AttentionScore::additive) {
    return additive_attention(q, k, v, score_weight_, operation);
  }
  return scaled_dot_product_attention(q, k, v, operation);
}

}  // namespace tapestry
