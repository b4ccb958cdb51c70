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
#include "autograd/ops/packed.h"
#include "autograd/ops/reductions.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/tape.h"
#include "tests/support/gradients.h"
#include "tests/support/values.h"

namespace tapestry::test {
namespace {

using Operands = OperationCase::Operands;
using Cases = std::vector<OperationCase>;

RandomStream dropping() { return RandomStream(3).named("edges"); }

void append(Cases& all, Cases more) { std::ranges::move(more, std::back_inserter(all)); }

/// Ids (rows, length) below `vocabulary` that come back unevenly often.
Ids uneven_ids(std::size_t rows, std::size_t length, std::size_t vocabulary) {
  Ids ids(Shape{rows, length});
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ids.data()[i] = static_cast<std::int32_t>(vocabulary == 0 ? 0 : i * i % vocabulary);
  }
  return ids;
}

/// An index of shape (rows of x, 3, n) into 4 indices of axis 1, the same for every row.
Ids index_of_rows(const Tensor& x) {
  const std::size_t rows = x.shape()[0], n = x.shape()[2];
  Ids ids(Shape{rows, 3, n});
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::size_t in_row = i % (3 * n);
    ids[i] = static_cast<std::int32_t>(in_row * in_row % 4);
  }
  return ids;
}

Cases broadcasting(std::size_t rows, std::size_t n) {
  const Shape x{rows, n};
  return {
      {"add", {x, {n}}, [](const Operands& o) { return add(o[0], o[1]); }},
      {"add of equal shapes", {x, x}, [](const Operands& o) { return add(o[0], o[1]); }},
      {"sub", {{n}, x}, [](const Operands& o) { return sub(o[0], o[1]); }},
      {"mul", {x, {rows, 1}}, [](const Operands& o) { return mul(o[0], o[1]); }},
      {"mul of equal shapes", {x, x}, [](const Operands& o) { return mul(o[0], o[1]); }},
      {"div", {x, {}}, [](const Operands& o) { return div(o[0], o[1]); }},
      {"div of equal shapes", {x, x}, [](const Operands& o) { return div(o[0], o[1]); }},
      {"maximum", {x, {n}}, [](const Operands& o) { return maximum(o[0], o[1]); }},
      {"minimum of equal shapes", {x, x}, [](const Operands& o) { return minimum(o[0], o[1]); }},
      {"where",
       {x, {rows, 1}},
       [](const Operands& o) { return where(o[0] < o[1], o[0], 2.0 * o[1]); }},
  };
}

Cases products(std::size_t rows, std::size_t n) {
  const MatmulOptions turned{.transpose_a = true, .transpose_b = true, .scale = 0.5};
  return {
      {"matmul", {{rows, n}, {n, 3}}, [](const Operands& o) { return matmul(o[0], o[1]); }},
      {"matmul, transposed",
       {{2, n, rows}, {3, n}},
       [=](const Operands& o) { return matmul(o[0], o[1], turned); }},
      {"linear", {{rows, n}, {5, n}}, [](const Operands& o) { return linear(o[0], o[1]); }},
      {"head_linear",
       {{rows, 2 * n}, {2, 5, n}},
       [](const Operands& o) { return head_linear(o[0], o[1]); }},
      {"linear with bias",
       {{rows, n}, {5, n}, {5}},
       [](const Operands& o) { return linear(o[0], o[1], o[2]); }},
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
      {"layer_norm",
       {x, {n}, {n}},
       [](const Operands& o) { return layer_norm(o[0], o[1], o[2], 0.1); }},
      {"rms_norm", {x, {n}}, [](const Operands& o) { return rms_norm(o[0], o[1], 0.1); }},
      {"batch_norm",
       {x, {n}, {n}},
       [](const Operands& o) { return batch_norm(o[0], o[1], o[2], 0.1); }},
      {"batch_norm_given", {x, {n}, {n}}, with_given_moments},
  };
}

Cases by_row(std::size_t rows, std::size_t n) {
  const Shape x{rows, n};
  const Ids ids = uneven_ids(rows, 2, n);
  const CrossEntropyOptions plain{.normalizer = 2 * rows + 1};
  const CrossEntropyOptions smooth{.label_smoothing = 0.2, .normalizer = 2 * rows + 1};
  return {
      {"softmax", {x}, [](const Operands& o) { return softmax(o[0]); }},
      {"log_softmax", {x}, [](const Operands& o) { return log_softmax(o[0]); }},
      {"swiglu", {{rows, 2 * n}}, [](const Operands& o) { return swiglu(o[0]); }},
      {"geglu", {{rows, 2 * n}}, [](const Operands& o) { return geglu(o[0]); }},
      {"cross_entropy",
       {{rows, 2, n}},
       [=](const Operands& o) { return cross_entropy(o[0], ids, plain).mean; }},
      {"cross_entropy, smoothed",
       {{rows, 2, n}},
       [=](const Operands& o) { return cross_entropy(o[0], ids, smooth).mean; }},
      {"linear_cross_entropy",
       {{rows, 2, 3}, {n, 3}, {n}},
       [=](const Operands& o) { return linear_cross_entropy(o[0], o[1], o[2], ids, smooth).mean; }},
      {"mean_squared_error",
       {x, x},
       [](const Operands& o) { return mean_squared_error(o[0], o[1]); }},
      {"binary_cross_entropy_with_logits",
       {x, x},
       [](const Operands& o) { return binary_cross_entropy_with_logits(o[0], sigmoid(o[1])); }},
  };
}

Cases attention(std::size_t rows, std::size_t n) {
  const auto attend = [](const AttentionOptions& options) {
    return
        [=](const Operands& o) { return scaled_dot_product_attention(o[0], o[1], o[2], options); };
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
          {"rotary", {queries}, [](const Operands& o) { return rotary(o[0]); }},
          {"additive_attention", {queries, keys, keys, {2, n}}, [](const Operands& o) {
             return additive_attention(o[0], o[1], o[2], o[3],
                                       {.num_heads = 2, .mask = AttentionMask::causal()});
           }}};
}

Cases random_and_lookup(std::size_t rows, std::size_t n) {
  const Shape x{rows, n};
  const Ids ids = uneven_ids(rows, 3, 4);
  return {
      {"dropout", {x}, [](const Operands& o) { return dropout(o[0], 0.3, dropping()); }},
      {"dropout at rate 1", {x}, [](const Operands& o) { return dropout(o[0], 1.0, dropping()); }},
      {"dropout_add",
       {x, x},
       [](const Operands& o) { return dropout_add(o[0], o[1], 0.3, dropping()); }},
      {"residual_add",
       {x, x},
       [](const Operands& o) {
         return residual_add(o[0], o[1],
                             {.skip_scale = 0.5,
                              .sublayer_scale = 2,
                              .dropout = 0.3,
                              .random = dropping(),
                              .stochastic_depth = 0.3,
                              .depth_random = dropping()});
       }},
      {"relu_dropout", {x}, [](const Operands& o) { return relu_dropout(o[0], 0.3, dropping()); }},
      {"embedding", {{5, n}}, [=](const Operands& o) { return embedding(o[0], ids, 1, 1.5); }},
  };
}

Cases rearranging(std::size_t rows, std::size_t n) {
  const Shape x{rows, n};
  const Shape cube{rows, 3, n};
  return {
      {"concat",
       {x, {rows, 3}},
       [](const Operands& o) {
         return concat({o[0], o[1]}, 1);
       }},
      {"concat of equal shapes",
       {x, x},
       [](const Operands& o) {
         return concat({o[0], o[1]}, 0);
       }},
      {"stack",
       {x, x},
       [](const Operands& o) {
         return stack({o[0], o[1]}, 1);
       }},
      {"slice", {{rows, n + 2}}, [=](const Operands& o) { return slice(o[0], 1, 1, n + 1); }},
      {"select", {cube}, [](const Operands& o) { return select(o[0], 1, 1); }},
      {"split",
       {cube},
       [](const Operands& o) {
         return split(o[0], {1, 2}, 1)[1];
       }},
      {"index_select",
       {cube},
       [](const Operands& o) {
         return index_select(o[0], 1, Ids{{2, 0}, {2, 2}});
       }},
      {"gather",
       {{rows, 4, n}},
       [](const Operands& o) { return gather(o[0], 1, index_of_rows(o[0])); }},
      {"topk", {cube}, [](const Operands& o) { return topk(o[0], 2, 1).values; }},
      {"split",
       {cube},
       [](const Operands& o) {
         const std::vector<Tensor> parts = split(o[0], {1, 2}, 1);
         return concat({parts[1], parts[0]}, 1);
       }},
      {"chunk",
       {cube},
       [](const Operands& o) {
         const std::vector<Tensor> parts = chunk(o[0], 3, 1);
         return concat({parts[2], parts[0], parts[1]}, 1);
       }},
      {"pack_padded",
       {cube},
       [](const Operands& o) {
         const std::vector<std::int32_t> lengths(o[0].shape()[0], 1);
         return pack_padded(o[0], lengths);
       }},
      {"pad_packed",
       {x},
       [](const Operands& o) {
         const std::vector<std::int32_t> lengths(o[0].shape()[0], 1);
         return pad_packed(o[0], lengths, 2);
       }},
      {"permute",
       {cube},
       [](const Operands& o) {
         return permute(o[0], {2, 0, 1});
       }},
      {"permute, last axis kept",
       {cube},
       [](const Operands& o) {
         return permute(o[0], {1, 0, 2});
       }},
      {"transpose", {x}, [](const Operands& o) { return transpose(o[0], 0, 1); }},
      {"flatten", {cube}, [](const Operands& o) { return flatten(o[0], 1); }},
      {"unsqueeze", {x}, [](const Operands& o) { return unsqueeze(o[0], 1); }},
      {"squeeze", {{rows, 1, n}}, [](const Operands& o) { return squeeze(o[0], 1); }},
      {"reshape",
       {x},
       [=](const Operands& o) {
         return reshape(o[0], {n, rows});
       }},
  };
}

Cases reducing(std::size_t rows, std::size_t n) {
  const Shape cube{rows, 3, n};
  return {
      {"sum of the middle", {cube}, [](const Operands& o) { return sum(o[0], {1}); }},
      {"sum of the ends",
       {cube},
       [](const Operands& o) {
         return sum(o[0], {0, 2});
       }},
      {"sum", {cube}, [](const Operands& o) { return sum(o[0]); }},
      {"mean of the middle", {cube}, [](const Operands& o) { return mean(o[0], {1}); }},
      {"mean of the rows", {cube}, [](const Operands& o) { return mean(o[0], {-1}); }},
      {"max of the middle", {cube}, [](const Operands& o) { return max(o[0], {1}); }},
      {"min of the middle", {cube}, [](const Operands& o) { return min(o[0], {1}); }},
      {"max of the rows", {cube}, [](const Operands& o) { return max(o[0], {-1}); }},
      {"var of the middle", {cube}, [](const Operands& o) { return var(o[0], {1}); }},
      {"standard_deviation of the middle",
       {cube},
       [](const Operands& o) { return standard_deviation(o[0], {1}); }},
      {"cumsum of the middle", {cube}, [](const Operands& o) { return cumsum(o[0], 1); }},
      {"cumsum of the rows", {cube}, [](const Operands& o) { return cumsum(o[0], -1); }},
      {"sum_to_shape",
       {cube},
       [](const Operands& o) {
         return sum_to_shape(o[0], {3, 1});
       }},
  };
}

}  // namespace

std::vector<OperationCase> every_elementwise_operation(const Shape& shape) {
  return {
      {"neg", {shape}, [](const Operands& o) { return neg(o[0]); }},
      {"scale", {shape}, [](const Operands& o) { return scale(o[0], -2.5); }},
      {"square", {shape}, [](const Operands& o) { return square(o[0]); }},
      {"abs", {shape}, [](const Operands& o) { return abs(o[0]); }},
      {"clamp", {shape}, [](const Operands& o) { return clamp(o[0], -0.3, 0.4); }},
      {"exp", {shape}, [](const Operands& o) { return exp(o[0]); }},
      {"log", {shape}, [](const Operands& o) { return log(o[0]); }, true},
      {"sign", {shape}, [](const Operands& o) { return o[0] * sign(o[0]); }},
      {"sqrt", {shape}, [](const Operands& o) { return sqrt(o[0]); }, true},
      {"pow 1.5", {shape}, [](const Operands& o) { return pow(o[0], 1.5); }, true},
      {"pow 3", {shape}, [](const Operands& o) { return pow(o[0], 3.0); }},
      {"relu", {shape}, [](const Operands& o) { return relu(o[0]); }},
      {"gelu", {shape}, [](const Operands& o) { return gelu(o[0]); }},
      {"gelu_tanh", {shape}, [](const Operands& o) { return gelu_tanh(o[0]); }},
      {"sigmoid", {shape}, [](const Operands& o) { return sigmoid(o[0]); }},
      {"silu", {shape}, [](const Operands& o) { return silu(o[0]); }},
      {"tanh", {shape}, [](const Operands& o) { return tanh(o[0]); }},
      {"softplus", {shape}, [](const Operands& o) { return softplus(o[0]); }},
      {"sin", {shape}, [](const Operands& o) { return sin(o[0]); }},
      {"cos", {shape}, [](const Operands& o) { return cos(o[0]); }},
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

OperationCase::Operands operands_of(const OperationCase& operation, DType dtype) {
  Operands operands;
  for (const Shape& shape : operation.shapes) {
    Tensor exact = random_leaf(shape, operands.size() + 1, 0.2);
    if (operation.positive) {
      for (double& value : exact.mutable_values<double>()) value = std::abs(value);
    }
    operands.push_back(exact.copied(dtype));
  }
  return operands;
}

Tensor upstream_of(const Tensor& y) { return random_leaf(y.shape(), 77).copied(y.dtype()); }

std::vector<std::vector<double>> gradient_values(const Operands& operands) {
  std::vector<std::vector<double>> gradients;
  for (const Tensor& x : operands) {
    gradients.push_back(x.gradient().defined() ? values_of(x.gradient()) : std::vector<double>());
  }
  return gradients;
}

OperationCase::Operands leaves_of(const Operands& x) {
  Operands leaves;
  for (const Tensor& operand : x) {
    leaves.push_back(operand.copied(operand.dtype()).require_gradient());
  }
  return leaves;
}

Results results_of(const OperationCase& operation, const Operands& operands) {
  const Operands leaves = leaves_of(operands);
  Tape tape;
  const Tensor y = operation.run(leaves);
  tape.backward(y, upstream_of(y));
  return {values_of(y), gradient_values(leaves)};
}

}  // namespace tapestry::test
