// SPDX-License-Identifier: BSD-3-Clause
#include "tests/autograd/edges/every_operation.h"

#include <algorithm>
#include <cmath>

#include "autograd/ops/activations.h"
#include "autograd/ops/attention.h"
#include "autograd/ops/comparison.h"
#include "autograd/ops/dropout.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/linear.h"
#include "autograd/ops/losses.h"
#include "autograd/ops/norms.h"
#include "autograd/ops/reductions.h"
#include "autograd/ops/shape_ops.h"

namespace tapestry::test {
namespace {

using Cases = std::vector<OperationCase>;
using O = const Operands&;

std::function<Tensor(const Operands&)> unary(Tensor (*f)(const Tensor&)) {
  return [f](const Operands& o) { return f(o[0]); };
}
std::function<Tensor(const Operands&)> binary(Tensor (*f)(const Tensor&, const Tensor&)) {
  return [f](const Operands& o) { return f(o[0], o[1]); };
}

RandomStream dropping() { return RandomStream(3).named("edges"); }

void append(Cases& all, Cases more) { std::ranges::move(more, std::back_inserter(all)); }

/// Ids (rows, length) below `vocabulary` that occur with uneven frequency.
Ids uneven_ids(std::size_t rows, std::size_t length, std::size_t vocabulary) {
  Ids ids = Ids::zeros({rows, length});
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ids.data()[i] = static_cast<std::int32_t>(vocabulary == 0 ? 0 : i * i % vocabulary);
  }
  return ids;
}

/// Indices below 4 along axis 1, of shape (rows of x, 3, n) and the same for every row.
Ids index_of_rows(const Tensor& x) {
  const std::size_t rows = x.shape()[0], n = x.shape()[2];
  Ids ids = Ids::zeros({rows, 3, n});
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::size_t in_row = i % (3 * n);
    ids[i] = static_cast<std::int32_t>(in_row * in_row % 4);
  }
  return ids;
}

Cases broadcasting(std::size_t rows, std::size_t n) {
  const Shape x{rows, n};
  return {
      {"add", {x, {n}}, binary(add)},
      {"add of equal shapes", {x, x}, binary(add)},
      {"sub", {{n}, x}, binary(sub)},
      {"sub of equal shapes", {x, x}, binary(sub)},
      {"mul", {x, {rows, 1}}, binary(mul)},
      {"mul of equal shapes", {x, x}, binary(mul)},
      {"div", {x, {}}, binary(div)},
      {"div of equal shapes", {x, x}, binary(div)},
      {"maximum", {x, {n}}, binary(maximum)},
      {"minimum of equal shapes", {x, x}, binary(minimum)},
      {"where", {x, {rows, 1}}, [](O o) { return where(o[0] < o[1], o[0], 2.0 * o[1]); }},
  };
}

Cases products(std::size_t rows, std::size_t n) {
  const MatmulOptions turned{.transpose_a = true, .transpose_b = true, .scale = 0.5};
  return {
      {"matmul", {{rows, n}, {n, 3}}, [](O o) { return matmul(o[0], o[1]); }},
      {"matmul, transposed",
       {{2, n, rows}, {3, n}},
       [=](O o) { return matmul(o[0], o[1], turned); }},
      {"linear", {{rows, n}, {5, n}}, [](O o) { return linear(o[0], o[1]); }},
      {"head_linear", {{rows, 2 * n}, {2, 5, n}}, binary(head_linear)},
      {"linear with bias", {{rows, n}, {5, n}, {5}}, [](O o) { return linear(o[0], o[1], o[2]); }},
  };
}

Cases norms(std::size_t rows, std::size_t n) {
  const Shape x{rows, n};
  const auto with_given_moments = [n](const Operands& o) {
    const DType dtype = o[0].dtype();
    return batch_norm_given(o[0], o[1], o[2],
                            {Tensor::full({n}, 0.3, dtype), Tensor::full({n}, 0.7, dtype)}, 0.1);
  };
  return {
      {"layer_norm", {x, {n}, {n}}, [](O o) { return layer_norm(o[0], o[1], o[2], 0.1); }},
      {"rms_norm", {x, {n}}, [](O o) { return rms_norm(o[0], o[1], 0.1); }},
      {"batch_norm", {x, {n}, {n}}, [](O o) { return batch_norm(o[0], o[1], o[2], 0.1); }},
      {"batch_norm_given", {x, {n}, {n}}, with_given_moments},
  };
}

Cases by_row(std::size_t rows, std::size_t n) {
  const Shape x{rows, n};
  const Ids ids = uneven_ids(rows, 2, n);
  const CrossEntropyOptions plain{.normalizer = 2 * rows + 1};
  const CrossEntropyOptions smooth{.label_smoothing = 0.2, .normalizer = 2 * rows + 1};
  return {
      {"softmax", {x}, unary(softmax)},
      {"log_softmax", {x}, unary(log_softmax)},
      {"swiglu", {{rows, 2 * n}}, unary(swiglu)},
      {"geglu", {{rows, 2 * n}}, unary(geglu)},
      {"cross_entropy", {{rows, 2, n}}, [=](O o) { return cross_entropy(o[0], ids, plain).mean; }},
      {"cross_entropy, smoothed",
       {{rows, 2, n}},
       [=](O o) { return cross_entropy(o[0], ids, smooth).mean; }},
      {"linear_cross_entropy",
       {{rows, 2, 3}, {n, 3}, {n}},
       [=](O o) { return linear_cross_entropy(o[0], o[1], o[2], ids, smooth).mean; }},
      {"mean_squared_error", {x, x}, binary(mean_squared_error)},
      {"binary_cross_entropy_with_logits",
       {x, x},
       [](O o) { return binary_cross_entropy_with_logits(o[0], sigmoid(o[1])); }},
  };
}

Cases attention(std::size_t rows, std::size_t n) {
  const auto attend = [](const AttentionOptions& options) {
    return [=](O o) { return scaled_dot_product_attention(o[0], o[1], o[2], options); };
  };
  const Shape queries{rows, 3, 2 * n};
  const Shape keys{rows, 4, 2 * n};
  return {{"attention",
           {queries, keys, keys},
           attend({.num_heads = 2, .mask = AttentionMask::causal()})},
          {"attention with dropout",
           {keys, keys, keys},
           attend({.num_heads = 2, .dropout = 0.4, .random = dropping()})},
          {"attention with linear biases",
           {queries, keys, keys},
           attend({.num_heads = 2, .alibi = true})},
          {"rotary", {queries}, [](O o) { return rotary(o[0]); }},
          {"additive_attention", {queries, keys, keys, {2, n}}, [](O o) {
             return additive_attention(o[0], o[1], o[2], o[3],
                                       {.num_heads = 2, .mask = AttentionMask::causal()});
           }}};
}

Cases random_and_lookup(std::size_t rows, std::size_t n) {
  const Shape x{rows, n};
  const Ids ids = uneven_ids(rows, 3, 4);
  return {
      {"dropout", {x}, [](O o) { return dropout(o[0], 0.3, dropping()); }},
      {"dropout at rate 1", {x}, [](O o) { return dropout(o[0], 1.0, dropping()); }},
      {"dropout_add", {x, x}, [](O o) { return dropout_add(o[0], o[1], 0.3, dropping()); }},
      {"residual_add",
       {x, x},
       [](O o) {
         return residual_add(o[0], o[1],
                             {.skip_scale = 0.5,
                              .sublayer_scale = 2,
                              .dropout = 0.3,
                              .random = dropping(),
                              .stochastic_depth = 0.3,
                              .depth_random = dropping()});
       }},
      {"relu_dropout", {x}, [](O o) { return relu_dropout(o[0], 0.3, dropping()); }},
      {"embedding", {{5, n}}, [=](O o) { return embedding(o[0], ids, 1, 1.5); }},
  };
}

Cases rearranging(std::size_t rows, std::size_t n) {
  const Shape x{rows, n};
  const Shape cube{rows, 3, n};
  return {
      {"concat",
       {x, {rows, 3}},
       [](O o) {
         return concat({o[0], o[1]}, 1);
       }},
      {"concat of equal shapes",
       {x, x},
       [](O o) {
         return concat({o[0], o[1]}, 0);
       }},
      {"stack",
       {x, x},
       [](O o) {
         return stack({o[0], o[1]}, 1);
       }},
      {"slice", {{rows, n + 2}}, [=](O o) { return slice(o[0], 1, 1, n + 1); }},
      {"select", {cube}, [](O o) { return select(o[0], 1, 1); }},
      {"index_select",
       {cube},
       [](O o) {
         return index_select(o[0], 1, Ids{{2, 0}, {2, 2}});
       }},
      {"gather", {{rows, 4, n}}, [](O o) { return gather(o[0], 1, index_of_rows(o[0])); }},
      {"topk", {cube}, [](O o) { return topk(o[0], 2, 1).values; }},
      {"split",
       {cube},
       [](O o) {
         const std::vector<Tensor> parts = split(o[0], {1, 2}, 1);
         return concat({parts[1], parts[0]}, 1);
       }},
      {"chunk",
       {cube},
       [](O o) {
         const std::vector<Tensor> parts = chunk(o[0], 3, 1);
         return concat({parts[2], parts[0], parts[1]}, 1);
       }},
      {"pack_padded",
       {cube},
       [](O o) {
         const std::vector<std::int32_t> lengths(o[0].shape()[0], 1);
         return pack_padded(o[0], lengths);
       }},
      {"pad_packed",
       {x},
       [](O o) {
         const std::vector<std::int32_t> lengths(o[0].shape()[0], 1);
         return pad_packed(o[0], lengths, 2);
       }},
      {"permute",
       {cube},
       [](O o) {
         return permute(o[0], {2, 0, 1});
       }},
      {"permute, last axis kept",
       {cube},
       [](O o) {
         return permute(o[0], {1, 0, 2});
       }},
      {"clone", {x}, [](O o) { return o[0].clone(); }},
      {"transpose", {x}, [](O o) { return transpose(o[0], 0, 1); }},
      {"flatten", {cube}, [](O o) { return flatten(o[0], 1); }},
      {"unsqueeze", {x}, [](O o) { return unsqueeze(o[0], 1); }},
      {"squeeze", {{rows, 1, n}}, [](O o) { return squeeze(o[0], 1); }},
      {"reshape",
       {x},
       [=](O o) {
         return reshape(o[0], {n, rows});
       }},
  };
}

Cases reducing(std::size_t rows, std::size_t n) {
  const Shape cube{rows, 3, n};
  return {
      {"sum of the middle", {cube}, [](O o) { return sum(o[0], {1}); }},
      {"sum of the ends",
       {cube},
       [](O o) {
         return sum(o[0], {0, 2});
       }},
      {"sum", {cube}, unary(sum)},
      {"mean of the middle", {cube}, [](O o) { return mean(o[0], {1}); }},
      {"mean of the rows", {cube}, [](O o) { return mean(o[0], {-1}); }},
      {"max of the middle", {cube}, [](O o) { return max(o[0], {1}); }},
      {"min of the middle", {cube}, [](O o) { return min(o[0], {1}); }},
      {"max of the rows", {cube}, [](O o) { return max(o[0], {-1}); }},
      {"var of the middle", {cube}, [](O o) { return var(o[0], {1}); }},
      {"std of the middle", {cube}, [](O o) { return tapestry::std(o[0], {1}); }},
      {"cumsum of the middle", {cube}, [](O o) { return cumsum(o[0], 1); }},
      {"cumsum of the rows", {cube}, [](O o) { return cumsum(o[0], -1); }},
      {"sum_to_shape",
       {cube},
       [](O o) {
         return sum_to_shape(o[0], {3, 1});
       }},
  };
}

}  // namespace

std::vector<OperationCase> every_elementwise_operation(const Shape& shape) {
  return {
      {"neg", {shape}, unary(neg), {{-inf, inf}, {-1, -1}}},
      {"scale", {shape}, [](O o) { return scale(o[0], -2.5); }, {{-inf, inf}, {-2.5, -2.5}}},
      {"square", {shape}, unary(square), {{inf, inf}, {inf, -inf}}},
      {"abs", {shape}, unary(abs), {{inf, inf}, {1, -1}}},
      {"clamp", {shape}, [](O o) { return clamp(o[0], -0.3, 0.4); }, {{0.4, -0.3}, {0, 0}}},
      {"exp", {shape}, unary(exp), {{inf, 0}, {inf, 0}}},
      {"log", {shape}, unary(log), {{inf, not_a_number}, {0, 0}}, true},
      {"sign", {shape}, [](O o) { return o[0] * sign(o[0]); }, {{inf, inf}, {1, -1}}},
      {"sqrt", {shape}, unary(sqrt), {{inf, not_a_number}, {0, not_a_number}}, true},
      {"pow 1.5",
       {shape},
       [](O o) { return pow(o[0], 1.5); },
       {{inf, not_a_number}, {inf, not_a_number}},
       true},
      {"pow 3", {shape}, [](O o) { return pow(o[0], 3.0); }, {{inf, -inf}, {inf, inf}}},
      {"relu", {shape}, unary(relu), {{inf, 0}, {1, 0}}},
      {"gelu", {shape}, unary(gelu), {{inf, 0}, {1, 0}}},
      {"gelu_tanh", {shape}, unary(gelu_tanh), {{inf, 0}, {1, 0}}},
      {"sigmoid", {shape}, unary(sigmoid), {{1, 0}, {0, 0}}},
      {"silu", {shape}, unary(silu), {{inf, 0}, {1, 0}}},
      {"tanh", {shape}, unary(tanh), {{1, -1}, {0, 0}}},
      {"softplus", {shape}, unary(softplus), {{inf, 0}, {1, 0}}},
      {"sin", {shape}, unary(sin), {{not_a_number, not_a_number}, {not_a_number, not_a_number}}},
      {"cos", {shape}, unary(cos), {{not_a_number, not_a_number}, {not_a_number, not_a_number}}},
  };
}

std::vector<OperationCase> every_operation(std::size_t rows, std::size_t n) {
  Cases all = every_elementwise_operation({rows, n});
  for (const auto& kind : {broadcasting, products, norms, by_row, attention, random_and_lookup,
                           rearranging, reducing}) {
    append(all, kind(rows, n));
  }
  return all;
}

Operands operands_of(const OperationCase& operation, DType dtype) {
  Operands operands;
  for (const Shape& shape : operation.shapes) {
    Tensor values = random_leaf(shape, operands.size() + 1, 0.2);
    if (operation.positive) {
      for (double& value : values.mutable_values<double>()) value = std::abs(value);
    }
    operands.push_back(values.detach().to(dtype));
  }
  return operands;
}

Results results_of(const OperationCase& operation, DType dtype) {
  return results_of(operation.run, operands_of(operation, dtype));
}

}  // namespace tapestry::test
