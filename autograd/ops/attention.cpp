#include "autograd/ops/attention.h"

#include <fmt/format.h>

#include <cmath>

#include "autograd/error.h"
#include "autograd/kernels/attention.h"
#include "autograd/operation.h"
#include "autograd/ops/internal/attention_call.h"

namespace tapestry {
namespace {

struct ScaledDotProduct {
  static constexpr const char* name = "scaled_dot_product_attention";
  static constexpr const char* formula = "y = softmax(scale · Q Kᵀ + mask) V, head by head";
  static constexpr const char* derivative =
      "dL/dV = Pᵀ dL/dy, dL/dQ = scale · G K, dL/dK = scale · Gᵀ Q, P the softmax, G = P · (dL/dP "
      "− Σⱼ P · dL/dP), dL/dP = dL/dy Vᵀ";
  AttentionCall call;

  Tensor forward(const ForwardContext& context, const Tensor& q, const Tensor& k, const Tensor& v) {
    return call.forward(context, {.q = q, .k = k, .v = v});
  }
  void backward(const Tensor& dy, Gradient dq, Gradient dk, Gradient dv) const {
    call.backward(dy, {.dq = dq, .dk = dk, .dv = dv});
  }
};

AttentionCall make_call(const Tensor& q, const AttentionOptions& options) {
  const std::size_t d_k = q.shape()[2] / options.num_heads;
  return AttentionCall(options, 1.0 / std::sqrt(static_cast<double>(d_k)));
}

struct AdditiveAttention {
  static constexpr const char* name = "additive_attention";
  static constexpr const char* formula =
      "y = softmax(scale · wᵀ tanh(qᵢ + kⱼ) + mask) V, head by head";
  static constexpr const char* derivative =
      "dL/dV = Pᵀ dL/dy, P the softmax; q, k and w get the gradient G = P · (dL/dP − Σⱼ P · "
      "dL/dP) through tanh, dL/dP = dL/dy Vᵀ";
  AttentionCall call;

  Tensor forward(const ForwardContext& context, const Tensor& q, const Tensor& k, const Tensor& v,
                 const Tensor& w) {
    return call.forward(context, {.q = q, .k = k, .v = v, .w = w});
  }
  void backward(const Tensor& dy, Gradient dq, Gradient dk, Gradient dv, Gradient dw) const {
    call.backward(dy, {.dq = dq, .dk = dk, .dv = dv, .dw = dw});
  }
};

constexpr double unscaled = 1.0;

void require_score_vector(const Tensor& q, const Tensor& w, std::size_t num_heads) {
  const Shape expected{num_heads, q.shape()[2] / num_heads};
  if (w.shape() != expected) {
    throw ShapeError(fmt::format("{}: w has shape {}, expected {} (q is {}, {} heads)",
                                 AdditiveAttention::name, to_string(w.shape()), to_string(expected),
                                 to_string(q.shape()), num_heads));
  }
  common_dtype(AdditiveAttention::name, q, w);
}

void require_pairs(const Tensor& x, const RotaryOptions& options) {
  const std::size_t pairs = 2 * options.num_heads;
  if (x.rank() != 3 || pairs == 0 || x.shape()[2] % pairs != 0 || x.shape()[2] == 0) {
    throw ShapeError(
        fmt::format("rotary: x has shape {}, expected (batch, length, {} heads * even width)",
                    to_string(x.shape()), options.num_heads));
  }
  if (!(options.base > 0 && std::isfinite(options.base))) {
    throw ValueError(fmt::format("rotary: base is {}, expected > 0", printable(options.base)));
  }
}

struct Rotary {
  static constexpr const char* name = "rotary";
  static constexpr const char* formula =
      "(y₂ᵢ, y₂ᵢ₊₁) = (x₂ᵢ, x₂ᵢ₊₁) rotated by pos / base^(2i/d_head)";
  static constexpr const char* derivative = "dL/dx = dL/dy rotated by the negative angles";
  kernels::Rotation rotation;

  Tensor forward(const Tensor& x) {
    Tensor y = Tensor::empty(x.shape(), x.dtype());
    dispatch(x.dtype(), [&]<class T>() {
      kernels::rotate<T>(rotation, x.values<T>().data(), {y.mutable_values<T>().data()});
    });
    return y;
  }
  void backward(const Tensor& dy, Gradient dx) const {
    kernels::Rotation back = rotation;
    back.back = true;
    dispatch(dy.dtype(),
             [&]<class T>() { kernels::rotate<T>(back, dy.values<T>().data(), dx.target<T>()); });
  }
};

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options) {
  require_queries_and_keys(ScaledDotProduct::name, q, k, options);
  require_values(ScaledDotProduct::name, k, v, options.num_heads);
  return apply(ScaledDotProduct{make_call(q, options)}, q, k, v);
}

Tensor attention_weights(const Tensor& q, const Tensor& k, const AttentionOptions& options) {
  require_queries_and_keys(ScaledDotProduct::name, q, k, options);
  return make_call(q, options).weights({.q = q, .k = k, .v = {}});
}

Tensor additive_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& w,
                          const AttentionOptions& options) {
  require_queries_and_keys(AdditiveAttention::name, q, k, options);
  require_values(AdditiveAttention::name, k, v, options.num_heads);
  require_score_vector(q, w, options.num_heads);
  return apply(AdditiveAttention{AttentionCall(options, unscaled)}, q, k, v, w);
}

Tensor additive_attention_weights(const Tensor& q, const Tensor& k, const Tensor& w,
                                  const AttentionOptions& options) {
  require_queries_and_keys(AdditiveAttention::name, q, k, options);
  require_score_vector(q, w, options.num_heads);
  return AttentionCall(options, unscaled).weights({.q = q, .k = k, .v = {}, .w = w});
}

Tensor rotary(const Tensor& x, const RotaryOptions& options) {
  require_pairs(x, options);
  const Shape& shape = x.shape();
  return apply(Rotary{{.batch = shape[0],
                       .length = shape[1],
                       .heads = options.num_heads,
                       .d = shape[2] / options.num_heads,
                       .base = options.base,
                       .first = options.first_position}},
               x);
}

}  // namespace tapestry
