#include <doctest/doctest.h>

#include <algorithm>
#include <xtensor/xtensor.hpp>

#include "layers/decoder.h"
#include "layers/encoder.h"
#include "layers/multi_head_attention.h"
#include "layers/token_batch.h"
#include "layers/transformer.h"
#include "tests/support/golden.h"

using namespace tapestry;
using namespace tapestry::testing;

/// The layers beside their counterparts in PyTorch; tests/golden/transformer.py wrote the files.
namespace {

Golden golden(const std::string& name) {
  return Golden(std::string(TAPESTRY_SOURCE_DIR) + "/tests/golden/" + name + ".txt");
}

TransformerOptions options_of(NormPlacement norm, Activation activation) {
  return {.d_model = 4,
          .num_heads = 2,
          .num_encoder_layers = 2,
          .num_decoder_layers = 2,
          .d_ff = 6,
          .dropout = 0.0,
          .norm = norm,
          .activation = activation};
}

TokenBatch tokens(const Golden& file, const std::string& name) {
  const Shape shape = file.at("input/" + name).shape();
  TokenBatch batch{.ids = xt::xtensor<std::int32_t, 2>::from_shape({shape[0], shape[1]}),
                   .lengths = file.integers(name + "_lengths")};
  std::ranges::copy(file.integers(name), batch.ids.begin());
  return batch;
}

void check_encoder_layer(const std::string& name, NormPlacement norm, Activation activation) {
  const Golden file = golden(name);
  Parameters parameters(DType::float64, 1);
  const EncoderLayer layer(Scope(parameters) / "encoder", options_of(norm, activation));
  file.load(parameters);
  const Tensor x = file.leaf("x");
  const auto mask = AttentionMask::padding(file.integers("lengths"));
  file.check([&] { return layer(x, mask, {}); }, parameters, {{"x", x}});
}

void check_decoder_layer(const std::string& name, NormPlacement norm, Activation activation) {
  const Golden file = golden(name);
  Parameters parameters(DType::float64, 1);
  const DecoderLayer layer(Scope(parameters) / "decoder", options_of(norm, activation));
  file.load(parameters);
  const Tensor x = file.leaf("x");
  const Tensor memory = file.leaf("memory");
  const DecoderMasks masks{
      .self = AttentionMask::causal() & AttentionMask::padding(file.integers("lengths")),
      .cross = AttentionMask::padding(file.integers("memory_lengths"))};
  file.check([&] { return layer(x, memory, masks, {}); }, parameters,
             {{"x", x}, {"memory", memory}});
}

void check_transformer(const std::string& name, NormPlacement norm, Activation activation,
                       TiedEmbeddings tie) {
  const Golden file = golden(name);
  TransformerOptions options = options_of(norm, activation);
  options.tie_embeddings = tie;
  Parameters parameters(DType::float64, 1);
  const Transformer model(parameters, options, 7, 6, 0);
  file.load(parameters);
  const TokenBatch source = tokens(file, "source");
  const TokenBatch target = tokens(file, "target");
  file.check([&] { return model(source, target); }, parameters);
}

}  // namespace

TEST_CASE("causal self-attention over padding has PyTorch's output, weights and gradients") {
  const Golden file = golden("attention_self");
  Parameters parameters(DType::float64, 1);
  const MultiHeadAttention layer(Scope(parameters) / "attn", 4, 2, 0.0);
  file.load(parameters);
  const Tensor x = file.leaf("x");
  const auto mask = AttentionMask::causal() & AttentionMask::padding(file.integers("lengths"));
  file.check([&] { return layer(x, x, mask, {}); }, parameters, {{"x", x}});
  file.check_equal("weights", layer.weights(x, x, mask));
}

TEST_CASE("attention to a padded memory has PyTorch's output, weights and gradients") {
  const Golden file = golden("attention_cross");
  Parameters parameters(DType::float64, 1);
  const MultiHeadAttention layer(Scope(parameters) / "attn", 4, 2, 0.0);
  file.load(parameters);
  const Tensor x = file.leaf("x");
  const Tensor memory = file.leaf("memory");
  const auto mask = AttentionMask::padding(file.integers("lengths"));
  file.check([&] { return layer(x, memory, mask, {}); }, parameters,
             {{"x", x}, {"memory", memory}});
  file.check_equal("weights", layer.weights(x, memory, mask));
}

TEST_CASE("an encoder layer has PyTorch's output and gradients") {
  check_encoder_layer("encoder_layer_pre", NormPlacement::pre, Activation::gelu);
  check_encoder_layer("encoder_layer_post", NormPlacement::post, Activation::relu);
}

TEST_CASE("a decoder layer has PyTorch's output and gradients") {
  check_decoder_layer("decoder_layer_pre", NormPlacement::pre, Activation::gelu_tanh);
  check_decoder_layer("decoder_layer_post", NormPlacement::post, Activation::relu);
}

TEST_CASE("a Transformer has PyTorch's logits and gradients, of tied and padding rows too") {
  check_transformer("transformer_pre_tied", NormPlacement::pre, Activation::gelu,
                    TiedEmbeddings::target);
  check_transformer("transformer_post", NormPlacement::post, Activation::relu,
                    TiedEmbeddings::none);
}
