#include "autograd/ops/attention.h"

#include <fmt/format.h>

#include <cmath>

#include "autograd/error.h"
#include "autograd/kernels/attention.h"
#include "autograd/operation.h"

namespace tapestry {
namespace {

constexpr const char* operation = "scaled_dot_product_attention";

void require_heads(const Tensor& x, const char* which, std::size_t num_heads) {
  if (x.rank() != 3 || num_heads == 0 || x.shape()[2] % num_heads != 0 || x.shape()[2] == 0) {
    throw ShapeError(fmt::format("{}: {} has shape {}, expected (batch, length, {} heads * width)",
                                 operation, which, to_string(x.shape()), num_heads));
  }
}

void require_queries_and_keys(const Tensor& q, const Tensor& k, const AttentionOptions& options) {
  require_heads(q, "q", options.num_heads);
  require_heads(k, "k", options.num_heads);
  common_dtype(operation, q, k);
  if (q.shape()[0] != k.shape()[0] || q.shape()[2] != k.shape()[2]) {
    throw ShapeError(fmt::format("{}: q has shape {} and k {}, expected equal first and last axes",
                                 operation, to_string(q.shape()), to_string(k.shape())));
  }
  if (!(options.dropout >= 0 && options.dropout <= 1)) {
    throw ValueError(fmt::format("{}: dropout is {}, expected 0 to 1", operation, options.dropout));
  }
  options.mask.require_fitting(operation, q.shape()[0], q.shape()[1], k.shape()[1]);
}

void require_values(const Tensor& k, const Tensor& v, std::size_t num_heads) {
  require_heads(v, "v", num_heads);
  common_dtype(operation, k, v);
  if (v.shape()[0] != k.shape()[0] || v.shape()[1] != k.shape()[1]) {
    throw ShapeError(fmt::format("{}: k has shape {} and v {}, expected equal first two axes",
                                 operation, to_string(k.shape()), to_string(v.shape())));
  }
}

/// The kernel's description of this call; refers to `options`.
kernels::AttentionProblem problem_of(const Shape& q, const Shape& k, std::size_t v_width,
                                     const AttentionOptions& options) {
  const std::size_t n_q = q[1];
  const std::size_t n_k = k[1];
  const std::size_t d_k = q[2] / options.num_heads;
  const AttentionMask& mask = options.mask;
  kernels::AttentionProblem problem{
      .batch = q[0],
      .n_q = n_q,
      .n_k = n_k,
      .heads = options.num_heads,
      .d_k = d_k,
      .d_v = v_width / options.num_heads,
      .scale = options.scale.value_or(1.0 / std::sqrt(static_cast<double>(d_k)))};
  if (options.random.on()) {
    problem.dropout = options.dropout;
    problem.dropout_key = options.random.key();
  }
  problem.keys = [&mask, n_q, n_k](std::size_t b, std::size_t i) {
    const auto [first, last] = mask.keys(b, i, n_q, n_k);
    return kernels::AttentionProblem::Range{first, last};
  };
  if (mask.keep_row(0, 0) != nullptr) {
    problem.keep_row = [&mask](std::size_t b, std::size_t i) { return mask.keep_row(b, i); };
  }
  return problem;
}

struct Attention {
  static constexpr const char* name = operation;
  AttentionOptions options;
  Tensor q{}, k{}, v{};

  Tensor forward(const Tensor& queries, const Tensor& keys, const Tensor& values) {
    q = queries, k = keys, v = values;
    const Shape& shape = q.shape();
    Tensor y = Tensor::empty(shape.with_last(v.shape()[2]), q.dtype());
    const auto problem = problem_of(shape, k.shape(), v.shape()[2], options);
    dispatch(y.dtype(), [&]<class T>() {
      kernels::attention(problem, q.values<T>().data(), k.values<T>().data(), v.values<T>().data(),
                         y.mutable_values<T>().data());
    });
    return y;
  }

  void backward(const Tensor& dy, Gradient dq, Gradient dk, Gradient dv) const {
    // The kernel fills all three in turns; those of one tensor need places of their own first.
    const bool shared = (dq && (dq.is_same(dk) || dq.is_same(dv))) || (dk && dk.is_same(dv));
    dispatch(dy.dtype(), [&]<class T>() {
      if (!shared) return run<T>(dy, dq.target<T>(), dk.target<T>(), dv.target<T>());
      Tensor own_dq = like(q, dq), own_dk = like(k, dk), own_dv = like(v, dv);
      run<T>(dy, target<T>(own_dq), target<T>(own_dk), target<T>(own_dv));
      if (dq) dq.add(own_dq);
      if (dk) dk.add(own_dk);
      if (dv) dv.add(own_dv);
    });
  }

 private:
  static Tensor like(const Tensor& x, const Gradient& wanted) {
    return wanted ? Tensor::empty(x.shape(), x.dtype()) : Tensor();
  }
  template <class T>
  static kernels::Target<T> target(Tensor& x) {
    return {x ? x.mutable_values<T>().data() : nullptr};
  }
  template <class T>
  void run(const Tensor& dy, kernels::Target<T> dq, kernels::Target<T> dk,
           kernels::Target<T> dv) const {
    kernels::attention_backward(problem_of(q.shape(), k.shape(), v.shape()[2], options),
                                q.values<T>().data(), k.values<T>().data(), v.values<T>().data(),
                                dy.values<T>().data(), dq, dk, dv);
  }
};

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options) {
  require_queries_and_keys(q, k, options);
  require_values(k, v, options.num_heads);
  return apply(Attention{options}, q, k, v);
}

Tensor attention_weights(const Tensor& q, const Tensor& k, const AttentionOptions& options) {
  require_queries_and_keys(q, k, options);
  const Shape& shape = q.shape();
  Tensor weights = Tensor::empty({shape[0], options.num_heads, shape[1], k.shape()[1]}, q.dtype());
  const auto problem = problem_of(shape, k.shape(), shape[2], options);
  dispatch(q.dtype(), [&]<class T>() {
    kernels::attention_weights(problem, q.values<T>().data(), k.values<T>().data(),
                               weights.mutable_values<T>().data());
  });
  return weights;
}

}  // namespace tapestry
