// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/ops/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "autograd/attention_trace.h"
#include "autograd/error.h"
#include "autograd/gradient.h"
#include "autograd/kernels/attention.h"
#include "autograd/kernels/memory.h"
#include "autograd/kernels/rotary.h"
#include "autograd/operation.h"

namespace tapestry {
namespace {

void require_heads(const char* operation, const Tensor& x, const char* which,
                   std::size_t num_heads) {
  if (x.rank() != 3 || num_heads == 0 || x.shape()[2] % num_heads != 0 || x.shape()[2] == 0) {
    throw ShapeError(fmt::format(
        "{}: {} has shape {}, expected (batch, length, num_heads * width) with num_heads = {}",
        operation, which, to_string(x.shape()), num_heads));
  }
}

/// The number of keys that a call reads.
std::size_t key_count(const Tensor& k, const AttentionOptions& options) {
  return options.num_keys.value_or(k.shape()[1]);
}

/// Throws, naming `operation`, unless q, k and the mask match and the options are valid.
void require_queries_and_keys(const char* operation, const Tensor& q, const Tensor& k,
                              const AttentionOptions& options) {
  require_heads(operation, q, "q", options.num_heads);
  require_heads(operation, k, "k", options.num_heads);
  common_dtype(operation, q, k);
  if (q.shape()[0] != k.shape()[0] || q.shape()[2] != k.shape()[2]) {
    throw ShapeError(fmt::format("{}: q has shape {} and k {}, expected equal first and last axes",
                                 operation, to_string(q.shape()), to_string(k.shape())));
  }
  if (!(options.dropout >= 0 && options.dropout <= 1)) {
    throw ValueError(
        fmt::format("{}: dropout is {}, expected 0 to 1", operation, printable(options.dropout)));
  }
  if (key_count(k, options) > k.shape()[1]) {
    throw ShapeError(fmt::format("{}: num_keys is {}, but k has shape {}", operation,
                                 *options.num_keys, to_string(k.shape())));
  }
  options.mask.require_fitting(operation, q.shape()[0], q.shape()[1], key_count(k, options));
}

/// Throws unless there is one value for each key.
void require_values(const char* operation, const Tensor& k, const Tensor& v,
                    std::size_t num_heads) {
  require_heads(operation, v, "v", num_heads);
  common_dtype(operation, k, v);
  if (v.shape()[0] != k.shape()[0] || v.shape()[1] != k.shape()[1]) {
    throw ShapeError(fmt::format("{}: k has shape {} and v {}, expected equal first two axes",
                                 operation, to_string(k.shape()), to_string(v.shape())));
  }
}

/// True if the weights take no more memory than q and k together, or if their rows are short.
bool are_few(const kernels::AttentionProblem& p) {
  return p.n_k <= std::max<std::size_t>(64, 2 * p.d_k);
}

Tensor like(const Tensor& x, const Gradient& wanted) {
  return wanted ? Tensor::empty(x.shape(), x.dtype()) : Tensor();
}

template <class T>
kernels::Target<T> target(Tensor& x) {
  return {x.defined() ? x.mutable_values<T>().data() : nullptr};
}

template <class T>
const T* data(const Tensor& x) {
  return x.defined() ? x.values<T>().data() : nullptr;
}

/// Sets `step` to a new tensor filled with `value`. Returns where to write the values of the step.
template <class T>
T* new_step(const Tensor& like, const kernels::AttentionProblem& p, double value, Tensor& step) {
  step = Tensor::full({p.batch, p.heads, p.n_q, p.n_k}, value, like.dtype());
  return step.mutable_values<T>().data();
}

constexpr double not_computed = std::numeric_limits<double>::quiet_NaN();

template <class T>
kernels::AttentionSteps<T> start_trace(const Tensor& q, const kernels::AttentionProblem& p,
                                       AttentionTrace& trace) {
  trace.num_heads = p.heads;
  trace.scale = p.scale;
  return {.products = new_step<T>(q, p, not_computed, trace.products),
          .scores = new_step<T>(q, p, not_computed, trace.scores),
          .biased = p.alibi ? new_step<T>(q, p, not_computed, trace.biased) : nullptr,
          .masked = new_step<T>(q, p, -std::numeric_limits<double>::infinity(), trace.masked),
          .weights = new_step<T>(q, p, 0.0, trace.weights)};
}

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
  KeyRanges ranges_{};                       // range of keys of each query, (batch, n_q)
  Tensor saved_{};                           // weights for backward; empty if they are recomputed
  std::shared_ptr<AttentionTrace> trace_{};  // null without a tracer
};

AttentionCall::AttentionCall(AttentionOptions options, double scale)
    : options_(std::move(options)), scale_(scale) {}

void AttentionCall::start_recording(const ForwardContext& context) {
  if (options_.num_keys) {
    throw ValueError(
        "attention: num_keys is given, but it is not differentiable; expected a call that no "
        "tape records, or slices of k and v");
  }
  if (context.thread.attention_tracer != nullptr) [[unlikely]]
    trace_ = context.thread.attention_tracer->start();
}

void AttentionCall::keep(const AttentionInputs& inputs) {
  inputs_ = inputs;
  const std::size_t batch = inputs.q.shape()[0];
  const std::size_t n_q = inputs.q.shape()[1], n_k = key_count(inputs.k, options_);
  ranges_.resize(batch * n_q);
  for (std::size_t b = 0; b < batch; ++b) {
    for (std::size_t i = 0; i < n_q; ++i) {
      const auto [first, last] = options_.mask.keys(b, i, n_q, n_k);
      ranges_[b * n_q + i] = {first, last};
    }
  }
}

/// The kernel's description of the call, which refers to the mask and the ranges.
kernels::AttentionProblem AttentionCall::problem() const {
  const Shape &q = inputs_.q.shape(), &k = inputs_.k.shape();
  const bool drops = options_.random.on();
  return {.batch = q[0],
          .n_q = q[1],
          .n_k = key_count(inputs_.k, options_),
          .heads = options_.num_heads,
          .d_k = q[2] / options_.num_heads,
          .d_v = inputs_.v.defined() ? inputs_.v.shape()[2] / options_.num_heads : 0,
          .scale = options_.scale.value_or(scale_),
          .keys = ranges_.data(),
          .keep = options_.mask.keep_row(0, 0),
          .alibi = options_.alibi,
          .key_rows = k[1],
          .dropout = drops ? options_.dropout : 0.0,
          .dropout_key = drops ? options_.random.key() : 0};
}

template <class T>
kernels::AttentionOperands<T> AttentionCall::operands() const {
  return {.q = data<T>(inputs_.q),
          .k = data<T>(inputs_.k),
          .v = data<T>(inputs_.v),
          .w = data<T>(inputs_.w)};
}

Tensor AttentionCall::forward(const ForwardContext& context, const AttentionInputs& inputs) {
  const auto& [q, k, v, w] = inputs;
  if (context.recorded) start_recording(context);
  if (AttentionRecorder* const recorder = context.thread.attention_recorder) [[unlikely]]
    recorder->add(AttentionCall(options_, scale_).weights({.q = q, .k = k, .v = {}, .w = w}));
  keep(inputs);
  const auto problem = this->problem();
  if (context.recorded && are_few(problem)) {
    saved_ = Tensor::empty({kernels::saved_weights(problem)}, q.dtype());
  }
  Tensor y = Tensor::empty(q.shape().with_last(v.shape()[2]), q.dtype());
  dispatch(y.dtype(), [&]<class T>() { run_forward<T>(y); });
  return y;
}

template <class T>
void AttentionCall::run_forward(Tensor& y) {
  const auto problem = this->problem();
  T* const saved = saved_.defined() ? saved_.mutable_values<T>().data() : nullptr;
  T* const out = y.mutable_values<T>().data();
  if (trace_ == nullptr) return kernels::attention(problem, operands<T>(), out, saved);
  const auto steps = start_trace<T>(inputs_.q, problem, *trace_);
  kernels::attention(problem, operands<T>(), out, saved, &steps);
}

void AttentionCall::backward(const Tensor& dy, const AttentionGradients& gradients) const {
  const Gradient &dq = gradients.dq, &dk = gradients.dk, &dv = gradients.dv, &dw = gradients.dw;
  // The kernel alternates between the targets, so gradients of the same tensor need separate
  // memory.
  const bool shared = (dq && (dq.is_same(dk) || dq.is_same(dv))) || (dk && dk.is_same(dv));
  dispatch(dy.dtype(), [&]<class T>() {
    if (!shared) {
      return run_backward<T>(dy, {dq.target<T>(), dk.target<T>(), dv.target<T>(), dw.target<T>()});
    }
    Tensor own_dq = like(inputs_.q, dq), own_dk = like(inputs_.k, dk), own_dv = like(inputs_.v, dv);
    run_backward<T>(dy, {target<T>(own_dq), target<T>(own_dk), target<T>(own_dv), dw.target<T>()});
    if (dq) dq.add(own_dq);
    if (dk) dk.add(own_dk);
    if (dv) dv.add(own_dv);
  });
}

template <class T>
void AttentionCall::run_backward(const Tensor& dy,
                                 const kernels::AttentionTargets<T>& targets) const {
  const auto problem = this->problem();
  if (trace_ == nullptr) {
    return kernels::attention_backward(problem, operands<T>(), data<T>(dy), data<T>(saved_),
                                       targets);
  }
  const kernels::AttentionGradientSteps<T> steps{
      .dweights = new_step<T>(dy, problem, not_computed, trace_->dweights),
      .dscores = new_step<T>(dy, problem, 0.0, trace_->dscores)};
  kernels::attention_backward(problem, operands<T>(), data<T>(dy), data<T>(saved_), targets,
                              &steps);
}

Tensor AttentionCall::weights(const AttentionInputs& inputs) {
  keep(inputs);
  const auto problem = this->problem();
  Tensor weights =
      Tensor::empty({problem.batch, problem.heads, problem.n_q, problem.n_k}, inputs.q.dtype());
  dispatch(weights.dtype(), [&]<class T>() {
    kernels::attention_weights(problem, operands<T>(), weights.mutable_values<T>().data());
  });
  return weights;
}

struct ScaledDotProduct {
  static constexpr const char* name = "scaled_dot_product_attention";
  static constexpr const char* formula = "y = P V, P = softmax(scale · Q Kᵀ + mask), head by head";
  static constexpr const char* derivative =
      "dL/dV = Pᵀ dL/dy, dL/dQ = scale · G K, dL/dK = scale · Gᵀ Q, G = P · (dL/dP − Σⱼ P · "
      "dL/dP), dL/dP = dL/dy Vᵀ";
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
      "y = P V, P = softmax(scale · wᵀ tanh(qᵢ + kⱼ) + mask), head by head";
  static constexpr const char* derivative =
      "dL/dV = Pᵀ dL/dy; q, k and w get the gradient G = P · (dL/dP − Σⱼ P · dL/dP) through tanh, "
      "dL/dP = dL/dy Vᵀ";
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
