#include "autograd/ops/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

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

using KeyRanges = std::vector<kernels::KeyRange, kernels::PoolAllocator<kernels::KeyRange>>;

/// What each query of each sentence may see, (batch, n_q).
KeyRanges key_ranges(const AttentionMask& mask, std::size_t batch, std::size_t n_q,
                     std::size_t n_k) {
  KeyRanges ranges(batch * n_q);
  for (std::size_t b = 0; b < batch; ++b) {
    for (std::size_t i = 0; i < n_q; ++i) {
      const auto [first, last] = mask.keys(b, i, n_q, n_k);
      ranges[b * n_q + i] = {first, last};
    }
  }
  return ranges;
}

/// The kernel's description of this call; refers to the mask and the ranges.
kernels::AttentionProblem problem_of(const Shape& q, const Shape& k, std::size_t v_width,
                                     const AttentionOptions& options, const KeyRanges& ranges) {
  const std::size_t d_k = q[2] / options.num_heads;
  const bool drops = options.random.on();
  return {.batch = q[0],
          .n_q = q[1],
          .n_k = k[1],
          .heads = options.num_heads,
          .d_k = d_k,
          .d_v = v_width / options.num_heads,
          .scale = options.scale.value_or(1.0 / std::sqrt(static_cast<double>(d_k))),
          .keys = ranges.data(),
          .keep = options.mask.keep_row(0, 0),
          .dropout = drops ? options.dropout : 0.0,
          .dropout_key = drops ? options.random.key() : 0};
}

struct Attention {
  static constexpr const char* name = operation;
  AttentionOptions options;
  Tensor q{}, k{}, v{};
  KeyRanges ranges{};
  Tensor weights{};  // kept for backward where they are few, else computed again

  Tensor forward(const Tensor& queries, const Tensor& keys, const Tensor& values) {
    q = queries, k = keys, v = values;
    ranges = key_ranges(options.mask, q.shape()[0], q.shape()[1], k.shape()[1]);
    const auto problem = this->problem();
    if (is_recorded(q, k, v) && are_few(problem)) {
      weights = Tensor::empty({kernels::saved_weights(problem)}, q.dtype());
    }
    Tensor y = Tensor::empty(q.shape().with_last(v.shape()[2]), q.dtype());
    dispatch(y.dtype(), [&]<class T>() {
      kernels::attention(problem, q.values<T>().data(), k.values<T>().data(), v.values<T>().data(),
                         y.mutable_values<T>().data(),
                         weights ? weights.mutable_values<T>().data() : nullptr);
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
  kernels::AttentionProblem problem() const {
    return problem_of(q.shape(), k.shape(), v.shape()[2], options, ranges);
  }
  /// As many as q and k together have values, or fewer; or rows of them as short as can be.
  static bool are_few(const kernels::AttentionProblem& p) {
    return p.n_k <= std::max<std::size_t>(64, 2 * p.d_k);
  }
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
    kernels::attention_backward(problem(), q.values<T>().data(), k.values<T>().data(),
                                v.values<T>().data(), dy.values<T>().data(),
                                weights ? weights.values<T>().data() : nullptr, dq, dk, dv);
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
  const KeyRanges ranges = key_ranges(options.mask, shape[0], shape[1], k.shape()[1]);
  const auto problem = problem_of(shape, k.shape(), shape[2], options, ranges);
  dispatch(q.dtype(), [&]<class T>() {
    kernels::attention_weights(problem, q.values<T>().data(), k.values<T>().data(),
                               weights.mutable_values<T>().data());
  });
  return weights;
}

}  // namespace tapestry
