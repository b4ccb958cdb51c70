#pragma once

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <vector>

#include "autograd/attention_trace.h"
#include "autograd/ops/activations.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/linear.h"
#include "autograd/ops/shape_ops.h"
#include "layers/multi_head_attention.h"
#include "tests/support/parameters.h"

/// Attention layers for tests, what they use inside, and their formula written out.
namespace tapestry::test {

/// A layer named `attn` with new parameters.
struct Attention {
  Attention(std::size_t d_model, std::size_t num_heads, double dropout = 0.0,
            DType dtype = DType::float64)
      : Attention(d_model, {.num_heads = num_heads, .dropout = dropout}, dtype) {}
  Attention(std::size_t d_model, const MultiHeadAttentionOptions& options,
            DType dtype = DType::float64)
      : parameters(dtype, 1), layer(Scope(parameters) / "attn", d_model, options) {}

  Parameters parameters;
  MultiHeadAttention layer;
};

/// The weights that a call uses.
inline Tensor weights_of(const MultiHeadAttention& layer, const Tensor& queries,
                         const Tensor& memory, const AttentionMask& mask) {
  const AttentionRecorder recorder;
  layer(queries, memory, mask, Mode::inference());
  return recorder.records().at(0).weights;
}

/// Makes all four change nothing where d_model is 2.
inline void make_projections_identities(const Parameters& parameters) {
  for (const char* projection : {"q", "k", "v", "out"}) {
    set_values(parameters, fmt::format("attn.{}_proj.weight", projection), {1, 0, 0, 1});
  }
}

/// The layer's formula from small operations; `bias` is added to the scores of each head.
inline Tensor composed(const Parameters& parameters, const Tensor& queries, const Tensor& memory,
                       std::size_t num_heads, const Tensor& bias) {
  const auto project = [&](const std::string& name, const Tensor& x) {
    return linear(x, parameter(parameters, "attn." + name + ".weight"),
                  parameter(parameters, "attn." + name + ".bias"));
  };
  const Tensor q = project("q_proj", queries);
  const Tensor k = project("k_proj", memory);
  const Tensor v = project("v_proj", memory);
  const std::size_t width = q.shape()[2] / num_heads;
  std::vector<Tensor> heads;
  for (std::size_t h = 0; h < num_heads; ++h) {
    const auto own = [&](const Tensor& x) { return slice(x, -1, h * width, (h + 1) * width); };
    const double scale = 1.0 / std::sqrt(static_cast<double>(width));
    const Tensor scores = matmul(own(q), own(k), {.transpose_b = true, .scale = scale});
    heads.push_back(matmul(softmax(add(scores, bias)), own(v)));
  }
  return project("out_proj", concat(heads, -1));
}

}  // namespace tapestry::test
