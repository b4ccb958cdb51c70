// SPDX-License-Identifier: BSD-3-Clause
#include "layers/multi_head_attention.h"

#include <fmt/format.h>

#include <algorithm>

#include "autograd/error.h"
#include "autograd/kernels/copy.h"
#include "autograd/ops/attention.h"
#include "autograd/ops/linear.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/shape.h"

namespace tapestry {
namespace {

/// Copies the first `count` tokens of every sequence to `room`, starting at `position`.
void write(const Tensor& tokens, std::size_t count, std::size_t position, Tensor& room) {
  const Shape& shape = tokens.shape();
  dispatch(tokens.dtype(), [&]<class T>() {
    kernels::copy_rows<T>(
        shape[0], count * shape[2], tokens.values<T>().data(), shape[1] * shape[2],
        {room.mutable_values<T>().data() + position * shape[2]}, room.shape()[1] * shape[2]);
  });
}

/// A tensor with room for 1.5 times `length` tokens, which starts with the first `used` tokens of
/// `old`. Appending one token at a time then copies each token a bounded number of times.
Tensor with_room(const Tensor& old, std::size_t length, std::size_t used) {
  const Shape& shape = old.shape();
  Tensor room = Tensor::empty({shape[0], length + length / 2 + 8, shape[2]}, old.dtype());
  write(old, used, 0, room);
  return room;
}

void require_same_sequences(const Tensor& cached, const Tensor& added, const char* which) {
  const bool fits = added.rank() == 3 && added.shape()[0] == cached.shape()[0] &&
                    added.shape()[2] == cached.shape()[2];
  if (fits && added.dtype() == cached.dtype()) return;
  throw ShapeError(fmt::format("key-value cache: {} have shape {}, expected ({}, length, {}) of {}",
                               which, to_string(added.shape()), cached.shape()[0],
                               cached.shape()[2], name(cached.dtype())));
}

/// Whether sequences can be copied within one tensor. This requires that each sequence that is
/// copied also stays in its own row, so that no copy overwrites it.
bool can_copy_in_place(std::span<const std::size_t> rows, std::size_t old_rows) {
  if (rows.size() != old_rows) return false;
  return std::ranges::all_of(rows, [&](std::size_t source) { return rows[source] == source; });
}

/// Copies the first `length` tokens of sequence rows[i] of `from` to sequence i of `to`, which may
/// be the same tensor.
void copy_sequences(const Tensor& from, std::span<const std::size_t> rows, std::size_t length,
                    Tensor& to) {
  const std::size_t sequence = from.shape()[1] * from.shape()[2];
  const bool in_place = from.memory().data() == to.memory().data();
  dispatch(from.dtype(), [&]<class T>() {
    T* const out = to.mutable_values<T>().data();
    const T* const in = in_place ? out : from.values<T>().data();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (in_place && rows[i] == i) continue;
      kernels::copy_rows<T>(1, length * from.shape()[2], in + rows[i] * sequence, sequence,
                            {out + i * sequence}, sequence);
    }
  });
}

Tensor selected(const Tensor& old, std::span<const std::size_t> rows, std::size_t length,
                bool may_overwrite) {
  const Shape& shape = old.shape();
  Tensor chosen = may_overwrite && can_copy_in_place(rows, shape[0])
                      ? old
                      : Tensor::empty({rows.size(), shape[1], shape[2]}, old.dtype());
  copy_sequences(old, rows, length, chosen);
  return chosen;
}

}  // namespace

KeyValueCache::KeyValueCache(const Tensor& keys, const Tensor& values)
    : keys_(keys), values_(values), length_(keys.shape()[1]) {
  require_same_sequences(keys, values, "values");
}

std::size_t KeyValueCache::rows() const { return keys_.defined() ? keys_.shape()[0] : 0; }

void KeyValueCache::append(const Tensor& keys, const Tensor& values) {
  if (keys_.defined()) {
    require_same_sequences(keys_, keys, "keys");
    require_same_sequences(values_, values, "values");
  }
  const std::size_t added = keys.shape()[1], length = length_ + added;
  if (!owned_ || length > keys_.shape()[1]) {
    keys_ = with_room(keys_.defined() ? keys_ : keys, length, length_);
    values_ = with_room(values_.defined() ? values_ : values, length, length_);
    owned_ = true;
  }
  write(keys, added, length_, keys_);
  write(values, added, length_, values_);
  length_ = length;
}

void KeyValueCache::select(std::span<const std::size_t> rows) {
  if (!keys_.defined()) return;
  for (const std::size_t row : rows) {
    if (row < this->rows()) continue;
    throw ValueError(fmt::format(
        "key-value cache: selected sequence {}, expected a number below {}", row, this->rows()));
  }
  keys_ = selected(keys_, rows, length_, owned_);
  values_ = selected(values_, rows, length_, owned_);
  owned_ = true;
}

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
        "expected 1, 0 and a score without parameters",
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
  // Separate statements, because C++ does not specify the evaluation order of arguments.
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
