#include "layers/multi_head_attention.h"

#include <fmt/format.h>

#include "autograd/error.h"
#include "autograd/layer_path.h"
#include "autograd/ops/additive_attention.h"
#include "autograd/ops/linear.h"
#include "autograd/ops/rotary.h"

namespace tapestry {
namespace {

bool has_parameters(AttentionScore score) {
  return score == AttentionScore::additive || score == AttentionScore::bilinear;
}

void require_valid(const Scope& scope, const TransformerOptions& o) {
  const LayerPath here(scope.path());
  if (o.num_heads == 0 || (o.d_head == 0 && o.d_model % o.num_heads != 0)) {
    throw ShapeError(
        fmt::format("multi-head attention: d_model {} is not a multiple of num_heads {}", o.d_model,
                    o.num_heads));
  }
  if (o.attention == AttentionKind::multi_head) return;
  if (o.num_heads != 1 || o.d_head != 0 || has_parameters(o.score)) {
    throw ValueError(fmt::format(
        "parameter-free attention: num_heads is {} and d_head {}, the score has {}parameters, "
        "expected 1, 0 and a score without",
        o.num_heads, o.d_head, has_parameters(o.score) ? "" : "no "));
  }
}

/// Bilinear scores are dot products of what their matrix has made of the queries.
bool is_scaled(AttentionScore score) { return score == AttentionScore::scaled_dot_product; }

AttentionOptions attention_options(const Scope& scope, const TransformerOptions& o,
                                   AttentionRole role) {
  require_valid(scope, o);
  AttentionOptions options{
      .num_heads = o.num_heads,
      .alibi = role == AttentionRole::self && o.positions == PositionKind::alibi,
      .dropout = o.attention_dropout_rate()};
  if (!is_scaled(o.score)) options.scale = 1.0;
  return options;
}

std::optional<AttentionMask> window(const TransformerOptions& o, AttentionRole role) {
  if (role == AttentionRole::cross || o.window == 0) return std::nullopt;
  return AttentionMask::window(o.window);
}

Tensor score_weight(const Scope& scope, const TransformerOptions& o) {
  const std::size_t heads = o.num_heads, d_head = head_width(o);
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

MultiHeadAttention::MultiHeadAttention(const Scope& scope, const TransformerOptions& o,
                                       AttentionRole role)
    : path_(&scope.path()),
      options_(attention_options(scope, o, role)),
      score_(o.score),
      rotates_(role == AttentionRole::self && o.positions == PositionKind::rotary),
      window_(window(o, role)) {
  if (o.attention == AttentionKind::multi_head) {
    projections_.emplace(scope, o.d_model, o.num_heads * head_width(o));
  }
  score_weight_ = score_weight(scope / "score", o);
}

AttentionOptions MultiHeadAttention::options_of_call(const AttentionMask& mask,
                                                     const Mode& mode) const {
  AttentionOptions options = options_;
  options.mask = window_ ? mask & *window_ : mask;
  options.random = mode.random().named(*path_);
  return options;
}

Tensor MultiHeadAttention::operator()(const Tensor& queries, const Tensor& memory,
                                      const AttentionMask& mask, const Mode& mode) const {
  const LayerPath here(*path_);
  const AttentionOptions options = options_of_call(mask, mode);
  if (!projections_) return attend(queries, memory, memory, options);
  // One by one: the order of evaluation of arguments is up to the compiler.
  const Tensor q = projections_->q(queries);
  const Tensor k = projections_->k(memory);
  const Tensor v = projections_->v(memory);
  return projections_->out(attend(q, k, v, options));
}

Tensor MultiHeadAttention::attend(Tensor q, Tensor k, const Tensor& v,
                                  const AttentionOptions& options) const {
  if (score_ == AttentionScore::bilinear) q = head_linear(q, score_weight_);
  if (rotates_) {
    // Fewer queries than keys are the last positions, as for masks.
    const auto first = static_cast<std::ptrdiff_t>(k.shape()[1] - q.shape()[1]);
    q = rotary(q, {.num_heads = options.num_heads, .first_position = first});
    k = rotary(k, {.num_heads = options.num_heads});
  }
  if (score_ == AttentionScore::additive) {
    return additive_attention(q, k, v, score_weight_, options);
  }
  return scaled_dot_product_attention(q, k, v, options);
}

}  // namespace tapestry
