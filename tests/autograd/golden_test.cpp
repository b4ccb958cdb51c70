// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

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
#include "tests/support/golden.h"

using namespace tapestry;
using namespace tapestry::test;

/// Compares the operations with PyTorch in both precisions. tests/golden/operations.py wrote the
/// expected values.
namespace {

const std::string file = "operations.txt";

using In = Golden&;  ///< the inputs of a case

std::ptrdiff_t index(In in, const char* name) { return in.integers<std::ptrdiff_t>(name).at(0); }
std::size_t extent(In in, const char* name) { return in.integers<std::size_t>(name).at(0); }
std::vector<std::ptrdiff_t> axes(In in) { return in.integers<std::ptrdiff_t>("axes"); }
Shape shape(In in) { return Shape(in.integers<std::size_t>("shape")); }
RandomStream random_stream() { return RandomStream(1).named("golden"); }

MatmulOptions matmul_options(In in) {
  return {.transpose_a = in.flag("transpose_a"),
          .transpose_b = in.flag("transpose_b"),
          .scale = in.number("scale")};
}

AttentionMask mask_of(In in) {
  AttentionMask mask;
  if (in.has("input/lengths")) mask = mask & AttentionMask::padding(in.integers("lengths"));
  if (in.has("input/causal")) mask = mask & AttentionMask::causal();
  if (in.has("input/radius")) mask = mask & AttentionMask::window(extent(in, "radius"));
  if (in.has("input/keep")) {
    const Shape& shape = in.at("input/keep").shape();
    const auto keep = in.integers<std::uint8_t>("keep");
    mask = mask & AttentionMask::keep(shape[0], shape[1], shape[2], keep);
  }
  return mask;
}

AttentionOptions attention_options(In in) {
  AttentionOptions options{.num_heads = extent(in, "num_heads"), .mask = mask_of(in)};
  if (in.has("input/scale")) options.scale = in.number("scale");
  if (in.has("input/alibi")) options.alibi = in.flag("alibi");
  return options;
}

Tensor looked_up(In in) {
  std::optional<std::int32_t> padding_id;
  if (in.has("input/padding_id")) padding_id = in.integers("padding_id").at(0);
  return embedding(in["weight"], in.ids("ids"), padding_id, in.number("scale"));
}

CrossEntropyOptions cross_entropy_options(In in) {
  return {.ignored_id = in.integers("ignored_id").at(0),
          .label_smoothing = in.number("label_smoothing"),
          .normalizer = extent(in, "normalizer")};
}

/// Concatenates the parts in reverse order.
Tensor reversed(std::vector<Tensor> parts, std::ptrdiff_t axis) {
  std::ranges::reverse(parts);
  return concat(parts, axis);
}

const std::map<std::string, Tensor (*)(In)> operations{
    {"add", [](In in) { return add(in["a"], in["b"]); }},
    {"sub", [](In in) { return sub(in["a"], in["b"]); }},
    {"mul", [](In in) { return mul(in["a"], in["b"]); }},
    {"div", [](In in) { return div(in["a"], in["b"]); }},
    {"neg", [](In in) { return neg(in["x"]); }},
    {"scale", [](In in) { return scale(in["x"], in.number("factor")); }},
    {"exp", [](In in) { return exp(in["x"]); }},
    {"log", [](In in) { return log(in["x"]); }},
    {"pow", [](In in) { return pow(in["x"], in.number("exponent")); }},
    {"sqrt", [](In in) { return sqrt(in["x"]); }},
    {"square", [](In in) { return square(in["x"]); }},
    {"relu", [](In in) { return relu(in["x"]); }},
    {"gelu", [](In in) { return gelu(in["x"]); }},
    {"gelu_tanh", [](In in) { return gelu_tanh(in["x"]); }},
    {"sigmoid", [](In in) { return sigmoid(in["x"]); }},
    {"tanh", [](In in) { return tanh(in["x"]); }},
    {"silu", [](In in) { return silu(in["x"]); }},
    {"swiglu", [](In in) { return swiglu(in["x"]); }},
    {"geglu", [](In in) { return geglu(in["x"]); }},
    {"softmax", [](In in) { return softmax(in["x"]); }},
    {"log_softmax", [](In in) { return log_softmax(in["x"]); }},
    {"sum", [](In in) { return sum(in["x"], axes(in), in.flag("keep_dims")); }},
    {"sum_all", [](In in) { return sum(in["x"]); }},
    {"mean", [](In in) { return mean(in["x"], axes(in), in.flag("keep_dims")); }},
    {"mean_all", [](In in) { return mean(in["x"]); }},
    {"max", [](In in) { return max(in["x"], axes(in), in.flag("keep_dims")); }},
    {"max_all", [](In in) { return max(in["x"]); }},
    {"min", [](In in) { return min(in["x"], axes(in), in.flag("keep_dims")); }},
    {"var",
     [](In in) {
       return var(in["x"], axes(in),
                  {.correction = in.number("correction"), .keep_dims = in.flag("keep_dims")});
     }},
    {"maximum", [](In in) { return maximum(in["a"], in["b"]); }},
    {"minimum", [](In in) { return minimum(in["a"], in["b"]); }},
    {"where", [](In in) { return where(in["a"] < in["b"], in["a"], 2.0 * in["b"]); }},
    {"clamp", [](In in) { return clamp(in["x"], in.number("low"), in.number("high")); }},
    {"abs", [](In in) { return abs(in["x"]); }},
    {"scalars", [](In in) { return (1.5 - in["x"]) / 0.75 + 2.0 / (in["x"] + 4.0) - 0.25; }},
    {"matmul", [](In in) { return matmul(in["a"], in["b"], matmul_options(in)); }},
    {"linear", [](In in) { return linear(in["x"], in["weight"], in["bias"]); }},
    {"linear_without_bias", [](In in) { return linear(in["x"], in["weight"]); }},
    {"layer_norm",
     [](In in) { return layer_norm(in["x"], in["weight"], in["bias"], in.number("epsilon")); }},
    {"rms_norm", [](In in) { return rms_norm(in["x"], in["weight"], in.number("epsilon")); }},
    {"batch_norm",
     [](In in) { return batch_norm(in["x"], in["weight"], in["bias"], in.number("epsilon")); }},
    {"batch_norm_given",
     [](In in) {
       return batch_norm_given(in["x"], in["weight"], in["bias"], {in["mean"], in["variance"]},
                               in.number("epsilon"));
     }},
    {"attention",
     [](In in) {
       return scaled_dot_product_attention(in["q"], in["k"], in["v"], attention_options(in));
     }},
    {"additive_attention",
     [](In in) {
       return additive_attention(in["q"], in["k"], in["v"], in["w"], attention_options(in));
     }},
    {"head_linear", [](In in) { return head_linear(in["x"], in["weight"]); }},
    {"rotary",
     [](In in) {
       return rotary(in["x"], {.num_heads = extent(in, "num_heads"),
                               .base = in.number("base"),
                               .first_position = index(in, "first_position")});
     }},
    {"embedding", looked_up},
    {"cross_entropy",
     [](In in) {
       return cross_entropy(in["logits"], in.ids("targets"), cross_entropy_options(in)).mean;
     }},
    {"linear_cross_entropy",
     [](In in) {
       return linear_cross_entropy(in["x"], in["weight"], in["bias"], in.ids("targets"),
                                   cross_entropy_options(in))
           .mean;
     }},
    {"index_select",
     [](In in) { return index_select(in["x"], index(in, "axis"), in.ids("index")); }},
    {"gather", [](In in) { return gather(in["x"], index(in, "axis"), in.ids("index")); }},
    {"gather_largest",
     [](In in) {
       const std::ptrdiff_t axis = index(in, "axis");
       return gather(in["x"], axis, argmax(in["x"], axis, true));
     }},
    {"binary_cross_entropy_with_logits",
     [](In in) { return binary_cross_entropy_with_logits(in["logits"], in["target"]); }},
    {"mean_squared_error", [](In in) { return mean_squared_error(in["a"], in["b"]); }},
    {"concat",
     [](In in) {
       return concat({in["a"], in["b"], in["c"]}, index(in, "axis"));
     }},
    {"sin", [](In in) { return sin(in["x"]); }},
    {"cos", [](In in) { return cos(in["x"]); }},
    {"softplus", [](In in) { return softplus(in["x"]); }},
    {"sign", [](In in) { return in["x"] * sign(in["x"]); }},
    {"where_number",
     [](In in) {
       const Tensor x = in["x"];
       return where(x < 0.25, where(x < -0.5, x, 0.5), where(x < 0.75, -1.5, x));
     }},
    {"std",
     [](In in) {
       return tapestry::std(in["x"], axes(in), {.correction = in.number("correction")});
     }},
    {"cumsum", [](In in) { return cumsum(in["x"], index(in, "axis")); }},
    {"topk", [](In in) { return topk(in["x"], extent(in, "k"), index(in, "axis")).values; }},
    {"sum_to_shape", [](In in) { return sum_to_shape(in["x"], shape(in)); }},
    {"split",
     [](In in) {
       const std::ptrdiff_t axis = index(in, "axis");
       return reversed(split(in["x"], in.integers<std::size_t>("extents"), axis), axis);
     }},
    {"chunk",
     [](In in) {
       const std::ptrdiff_t axis = index(in, "axis");
       return reversed(chunk(in["x"], extent(in, "count"), axis), axis);
     }},
    {"flatten", [](In in) { return flatten(in["x"], index(in, "first"), index(in, "last")); }},
    {"squeeze", [](In in) { return squeeze(in["x"], index(in, "axis")); }},
    {"unsqueeze", [](In in) { return unsqueeze(in["x"], index(in, "axis")); }},
    {"one_hot",
     [](In in) {
       const Tensor x = in["x"];
       return x * one_hot(in.ids("ids"), extent(in, "classes"), x.dtype());
     }},
    {"stack",
     [](In in) {
       return stack({in["a"], in["b"], in["c"]}, index(in, "axis"));
     }},
    {"slice",
     [](In in) {
       return slice(in["x"], index(in, "axis"), extent(in, "begin"), extent(in, "end"));
     }},
    {"select", [](In in) { return select(in["x"], index(in, "axis"), index(in, "index")); }},
    {"reshape", [](In in) { return reshape(in["x"], shape(in)); }},
    {"transpose",
     [](In in) { return transpose(in["x"], index(in, "axis_a"), index(in, "axis_b")); }},
    {"permute", [](In in) { return permute(in["x"], axes(in)); }},
    {"dropout", [](In in) { return dropout(in["x"], in.number("rate"), random_stream()); }},
    {"dropout_add",
     [](In in) {
       return dropout_add(in["residual"], in["x"], in.number("rate"), random_stream());
     }},
    {"residual_add",
     [](In in) {
       return residual_add(in["residual"], in["x"],
                           {.skip_scale = in.number("skip_scale"),
                            .sublayer_scale = in.number("sublayer_scale"),
                            .dropout = in.number("rate"),
                            .random = random_stream()});
     }},
};

/// The part of a case's name before the slash.
std::string operation_of(const std::string& name) { return name.substr(0, name.find('/')); }

}  // namespace

TEST_CASE("every operation matches PyTorch's output and gradients") {
  for (const std::string& name : golden_cases(file)) {
    CAPTURE(name);
    const auto operation = operations.find(operation_of(name));
    REQUIRE(operation != operations.end());
    for (const DType dtype : dtypes) {
      CAPTURE(dtype);
      Golden golden(file, name, dtype);
      golden.check([&] { return operation->second(golden); });
    }
  }
}

TEST_CASE("every operation has golden values") {
  std::set<std::string> stored;
  for (const std::string& name : golden_cases(file)) stored.insert(operation_of(name));
  for (const auto& operation : operations) {
    CAPTURE(operation.first);
    CHECK(stored.contains(operation.first));
  }
}
