// SPDX-License-Identifier: BSD-3-Clause
#include "layers/transformer.h"

#include <doctest/doctest.h>

#include <vector>

using namespace tapestry;

namespace {

/// Options in which every field of a layer has a distinct value other than its default.
TransformerOptions unlike_the_defaults() {
  return {.d_model = 48,
          .num_heads = 3,
          .attention = AttentionKind::parameter_free,
          .score = AttentionScore::bilinear,
          .d_head = 10,
          .window = 7,
          .num_encoder_layers = 4,
          .num_decoder_layers = 5,
          .d_ff = 96,
          .dropout = 0.9,
          .embedding_dropout = 0.11,
          .attention_dropout = 0.12,
          .activation_dropout = 0.13,
          .residual_dropout = 0.14,
          .stochastic_depth = 0.15,
          .skip_scale = 0.16,
          .sublayer_scale = 0.17,
          .norm = NormPlacement::post,
          .normalization = Normalization::rms_norm,
          .activation = Activation::geglu,
          .positions = PositionKind::rotary,
          .max_length = 33,
          .layer_norm_epsilon = 0.18};
}

void check_attention(const MultiHeadAttentionOptions& attention) {
  CHECK(attention.kind == AttentionKind::parameter_free);
  CHECK(attention.num_heads == 3);
  CHECK(attention.d_head == 10);
  CHECK(attention.score == AttentionScore::bilinear);
  CHECK(attention.dropout == 0.12);
}

void check_feed_forward(const FeedForwardOptions& ff) {
  CHECK(ff.d_ff == 96);
  CHECK(ff.activation == Activation::geglu);
  CHECK(ff.dropout == 0.13);
}

void check_residual(const ResidualOptions& residual) {
  CHECK(residual.placement == NormPlacement::post);
  CHECK(residual.norm.kind == Normalization::rms_norm);
  CHECK(residual.norm.epsilon == 0.18);
  CHECK(residual.dropout == 0.14);
  CHECK(residual.stochastic_depth == 0.15);
  CHECK(residual.skip_scale == 0.16);
  CHECK(residual.sublayer_scale == 0.17);
}

/// The dropout rates of a model: first of its input, then of each sublayer of an encoder and a
/// decoder.
std::vector<double> rates(const TransformerOptions& options) {
  const EncoderLayerOptions encoder = encoder_options(options, 1).layer;
  const DecoderLayerOptions decoder = decoder_options(options).layer;
  return {input_embedding_options(options).dropout,
          encoder.self_attn.dropout,
          encoder.ff.dropout,
          encoder.residual.dropout,
          decoder.self_attn.dropout,
          decoder.cross_attn.dropout,
          decoder.ff.dropout,
          decoder.residual.dropout};
}

}  // namespace

TEST_CASE("every field of a model's options is passed to the layers of an encoder") {
  const EncoderOptions encoder = encoder_options(unlike_the_defaults(), 4);
  CHECK(encoder.num_layers == 4);
  check_attention(encoder.layer.self_attn);
  CHECK(encoder.layer.self_attn.window == 7);
  CHECK(encoder.layer.self_attn.rotary);
  check_feed_forward(encoder.layer.ff);
  check_residual(encoder.layer.residual);
}

TEST_CASE("every field of a model's options is passed to the layers of a decoder") {
  const DecoderOptions decoder = decoder_options(unlike_the_defaults());
  CHECK(decoder.num_layers == 5);
  check_attention(decoder.layer.self_attn);
  CHECK(decoder.layer.self_attn.window == 7);
  CHECK(decoder.layer.self_attn.rotary);
  check_attention(decoder.layer.cross_attn);
  check_feed_forward(decoder.layer.ff);
  check_residual(decoder.layer.residual);
}

TEST_CASE("cross-attention has neither a window nor positions") {
  for (const PositionKind kind : {PositionKind::rotary, PositionKind::alibi}) {
    const TransformerOptions options{.window = 7, .positions = kind};
    const MultiHeadAttentionOptions cross = decoder_options(options).layer.cross_attn;
    CHECK(cross.window == 0);
    CHECK_FALSE(cross.rotary);
    CHECK_FALSE(cross.alibi);
  }
}

TEST_CASE("self-attention has rotary positions or ALiBi if the model has them") {
  for (const PositionKind kind : {PositionKind::sinusoidal, PositionKind::learned,
                                  PositionKind::none, PositionKind::rotary, PositionKind::alibi}) {
    const TransformerOptions options{.positions = kind};
    for (const MultiHeadAttentionOptions& attention :
         {encoder_options(options, 1).layer.self_attn, decoder_options(options).layer.self_attn}) {
      CHECK(attention.rotary == (kind == PositionKind::rotary));
      CHECK(attention.alibi == (kind == PositionKind::alibi));
    }
    CHECK(input_embedding_options(options).positions.kind == kind);
  }
}

TEST_CASE("`dropout` is the default of all more specific dropout rates") {
  TransformerOptions options{.dropout = 0.25};
  CHECK(rates(options) == std::vector<double>(8, 0.25));
  options.embedding_dropout = 0.0;
  CHECK(rates(options) == std::vector<double>{0, .25, .25, .25, .25, .25, .25, .25});
  options.attention_dropout = 0.5;
  CHECK(rates(options) == std::vector<double>{0, .5, .25, .25, .5, .5, .25, .25});
  options.activation_dropout = 0.0;
  CHECK(rates(options) == std::vector<double>{0, .5, 0, .25, .5, .5, 0, .25});
  options.residual_dropout = 0.75;
  CHECK(rates(options) == std::vector<double>{0, .5, 0, .75, .5, .5, 0, .75});
}

TEST_CASE("the output projection has its own weight unless the options tie it") {
  for (const TiedEmbeddings tie :
       {TiedEmbeddings::none, TiedEmbeddings::target, TiedEmbeddings::all}) {
    Parameters parameters(DType::float32, 1);
    const Scope root(parameters);
    const Embedding embedding(root / "embedding", 7, 4);
    const TransformerOptions options{.d_model = 4, .tie_embeddings = tie};
    const OutputProjection output = output_projection(root / "output", options, embedding);
    CHECK(output.logits(Tensor::zeros({2, 4}, DType::float32)).shape() == Shape{2, 7});
    CHECK((parameters.find("output.weight") != nullptr) == (tie == TiedEmbeddings::none));
  }
}
