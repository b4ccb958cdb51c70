// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <vector>

#include "autograd/random.h"
#include "layers/model.h"
#include "layers/transformer.h"

/// The small models and batches that the tests of the whole Transformer share.
namespace tapestry::test {

inline constexpr std::int32_t padding_id = 0;
inline constexpr std::size_t vocabulary = 11;

/// Options with pre-norm, sinusoidal positions, a tied output projection and no dropout.
inline TransformerOptions small() {
  return {.d_model = 8,
          .num_heads = 2,
          .num_encoder_layers = 2,
          .num_decoder_layers = 2,
          .d_ff = 12,
          .dropout = 0.0,
          .max_length = 7,
          .tie_embeddings = TiedEmbeddings::target};
}

/// A Transformer with one vocabulary size for source and target, and its parameters.
struct TestTransformer {
  explicit TestTransformer(const TransformerOptions& options, DType dtype = DType::float64,
                           std::uint64_t seed = 1, std::size_t words = vocabulary)
      : parameters(dtype, seed),
        transformer(Scope(parameters), options, words, words, padding_id) {}

  Parameters parameters;
  Transformer transformer;
};

inline const TokenBatch source{.ids = {{5, 6, 7, 8}, {9, 4, 0, 0}, {3, 10, 5, 0}},
                               .lengths = {4, 2, 3}};
inline const TokenBatch target{.ids = {{1, 8, 7}, {1, 4, 9}, {1, 5, 0}}, .lengths = {3, 3, 2}};

/// Options that together cover every choice at least once.
inline std::vector<TransformerOptions> every_choice() {
  const auto with = [](NormPlacement norm, Activation activation, PositionKind positions,
                       TiedEmbeddings tie, double dropout) {
    TransformerOptions options = small();
    options.norm = norm;
    options.activation = activation;
    options.positions = positions;
    options.tie_embeddings = tie;
    options.dropout = dropout;
    return options;
  };
  using enum NormPlacement;
  using enum Activation;
  using enum PositionKind;
  using Tied = TiedEmbeddings;
  TransformerOptions gated = with(pre, swiglu, learned, Tied::none, 0.3);
  TransformerOptions plain = with(post, silu, sinusoidal, Tied::target, 0.0);
  gated.normalization = plain.normalization = Normalization::rms_norm;
  gated.residual_dropout = 0.1;
  gated.stochastic_depth = 0.1;
  plain.skip_scale = 0.5;
  plain.sublayer_scale = 2.0;
  TransformerOptions turned = with(pre, relu, rotary, Tied::none, 0.0);
  turned.score = AttentionScore::bilinear;
  turned.d_head = 6;
  TransformerOptions slanted = with(post, Activation::gelu, alibi, Tied::target, 0.3);
  slanted.score = AttentionScore::additive;
  slanted.window = 2;
  TransformerOptions bare = with(pre, Activation::gelu, PositionKind::none, Tied::none, 0.0);
  bare.attention = AttentionKind::parameter_free;
  bare.score = AttentionScore::dot_product;
  bare.num_heads = 1;
  const std::vector<TransformerOptions> varied = {gated, plain, turned, slanted, bare};
#if defined(TAPESTRY_ASAN) || defined(TAPESTRY_TSAN)
  return varied;  // a varied subset, because sanitizers are slow
#else
  std::vector<TransformerOptions> all = {
      with(pre, geglu, sinusoidal, Tied::target, 0.0),
      with(pre, relu, sinusoidal, Tied::target, 0.0),
      with(post, relu, learned, Tied::none, 0.0),
      with(pre, Activation::gelu, learned, Tied::all, 0.0),
      with(post, Activation::gelu_tanh, sinusoidal, Tied::all, 0.3),
      with(pre, Activation::gelu_tanh, sinusoidal, Tied::none, 0.3)};
  all.insert(all.end(), varied.begin(), varied.end());
  return all;
#endif
}

/// The batch with `columns` more columns of padding, filled with `id`.
inline TokenBatch padded(const TokenBatch& tokens, std::size_t columns, std::int32_t id) {
  const std::size_t rows = tokens.ids.shape()[0];
  const std::size_t length = tokens.ids.shape()[1];
  TokenBatch result{.ids = Ids(Shape{rows, length + columns}, id), .lengths = tokens.lengths};
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t t = 0; t < length; ++t) result.ids(r, t) = tokens.ids(r, t);
  }
  return result;
}

/// Ids below `words`, without padding ids.
inline Ids random_ids(std::size_t rows, std::size_t length, std::size_t words, std::uint64_t seed) {
  Ids ids = Ids::zeros({rows, length});
  std::uint64_t counter = 0;
  for (std::int32_t& id : ids) {
    const double u = RandomStream(seed).uniform(counter++);
    id = 1 + static_cast<std::int32_t>(u * static_cast<double>(words - 1));
  }
  return ids;
}

}  // namespace tapestry::test
