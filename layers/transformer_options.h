#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "layers/embedding.h"
#include "layers/encoder_decoder.h"
#include "layers/feed_forward.h"
#include "layers/heads.h"
#include "layers/multi_head_attention.h"
#include "layers/norm.h"
#include "layers/residual.h"

namespace tapestry {

/// Which embeddings share one matrix: none; `target`: the target embedding and the output
/// projection; `all`: the source embedding too, for which both sides need one common vocabulary. A
/// tied model has fewer parameters, and its initial loss is half a nat or more above
/// ln(vocabulary), since its initial logits have variance 1.
enum class TiedEmbeddings { none, target, all };

/// Sizes and choices of a whole model. The member initialisers are the defaults of a config.
///
/// The layers have options of their own; the functions below derive them.
struct TransformerOptions {
  std::size_t d_model = 128;  ///< width of every token vector
  std::size_t num_heads = 4;
  AttentionKind attention = AttentionKind::multi_head;
  AttentionScore score = AttentionScore::scaled_dot_product;
  std::size_t d_head = 0;  ///< width of a head; 0: d_model / num_heads, which must divide it
  std::size_t window = 0;  ///< greatest distance that self-attention attends to; 0: any
  std::size_t num_encoder_layers = 2;
  std::size_t num_decoder_layers = 2;
  std::size_t d_ff = 512;  ///< width between the two maps of a feed-forward block
  double dropout = 0.1;    ///< rate in [0, 1), where none of the next four is given
  std::optional<double> embedding_dropout = {};   ///< of token vectors with their positions
  std::optional<double> attention_dropout = {};   ///< of attention weights
  std::optional<double> activation_dropout = {};  ///< inside feed-forward blocks
  std::optional<double> residual_dropout = {};    ///< of what a sublayer adds to its input
  double stochastic_depth = 0.0;  ///< rate in [0, 1), of a stack's last layer: see at_depth()
  double skip_scale = 1.0;        ///< factor of the input in a residual sum
  double sublayer_scale = 1.0;    ///< factor of the sublayer's output in a residual sum
  NormPlacement norm = NormPlacement::pre;
  Normalization normalization = Normalization::layer_norm;
  Activation activation = Activation::relu;
  PositionKind positions = PositionKind::sinusoidal;
  std::size_t max_length = 256;  ///< tokens of the longest sequence, <bos> and <eos> included
  TiedEmbeddings tie_embeddings = TiedEmbeddings::none;
  PoolingKind pooling = PoolingKind::class_token;  ///< classifier, vision_transformer
  std::size_t patch_size = 2;        ///< vision_transformer: pixels on a side of a patch
  double layer_norm_epsilon = 1e-5;  ///< > 0; added to the variance or mean square of every norm
};

/// Stacks of layers. `num_layers` is num_encoder_layers for an encoder; a language model, whose
/// decoder is a stack of encoder layers, passes num_decoder_layers.
EncoderOptions encoder_options(const TransformerOptions& options, std::size_t num_layers);
DecoderOptions decoder_options(const TransformerOptions& options);

/// Token vectors are multiplied by sqrt(d_model) [1]; the row of `padding_id` gets no gradient.
///
/// [1] Vaswani et al. 2017, section 3.4.
EmbeddingOptions embedding_options(const TransformerOptions& options, std::int32_t padding_id);

/// Positions and dropout of what a stack reads.
InputEmbeddingOptions input_embedding_options(const TransformerOptions& options);

/// The output projection to the vocabulary of an embedding, with the embedding's matrix if the
/// options tie them.
OutputProjection output_projection(const Scope& scope, const TransformerOptions& options,
                                   const Embedding& embedding);

/// The width of a head of attention.
inline std::size_t head_width(const TransformerOptions& options) {
  return head_width(options.d_model, {.num_heads = options.num_heads, .d_head = options.d_head});
}

}  // namespace tapestry
