// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "layers/basic_layers.h"
#include "layers/embedding.h"
#include "layers/encoder_decoder.h"
#include "layers/heads.h"
#include "layers/model.h"
#include "layers/multi_head_attention.h"
#include "layers/norm.h"
#include "layers/parameters.h"

namespace tapestry {

/// Which embeddings share one matrix: none; `target`: the target embedding and the output
/// projection; `all`: also the source embedding, which requires one vocabulary for both sides. A
/// tied model has fewer parameters, and its initial loss is at least half a nat above
/// ln(vocabulary), since its initial logits have variance 1.
enum class TiedEmbeddings {
  none,    ///< no matrix is shared
  target,  ///< target embedding and output projection share a matrix
  all      ///< source embedding, target embedding and output projection share a matrix
};

/// The sizes and options of a complete model. The member initializers are the defaults of a config.
///
/// Layers have their own options; the functions below derive them.
struct TransformerOptions {
  std::size_t d_model = 128;  ///< width of every token vector
  std::size_t num_heads = 4;  ///< number of heads of every attention, >= 1
  AttentionKind attention = AttentionKind::multi_head;        ///< whether attention has parameters
  AttentionScore score = AttentionScore::scaled_dot_product;  ///< score of a query and a key
  std::size_t d_head = 0;  ///< width of a head; 0: d_model / num_heads, which must be an integer
  std::size_t window = 0;  ///< maximum distance in self-attention; 0: any
  std::size_t num_encoder_layers = 2;  ///< number of encoder layers
  std::size_t num_decoder_layers = 2;  ///< number of layers of the decoder, and of a language model
  std::size_t d_ff = 512;              ///< hidden width of a feed-forward block
  double dropout = 0.1;                ///< dropout rate in [0, 1); default of the next four rates
  std::optional<double> embedding_dropout = {};   ///< dropout rate of embeddings with positions
  std::optional<double> attention_dropout = {};   ///< dropout rate of the attention weights
  std::optional<double> activation_dropout = {};  ///< dropout rate inside feed-forward blocks
  std::optional<double> residual_dropout = {};    ///< dropout rate of the output of each sublayer
  double stochastic_depth = 0.0;  ///< rate of a stack's last layer, in [0, 1): see at_depth()
  double skip_scale = 1.0;        ///< scale of the input in a residual sum
  double sublayer_scale = 1.0;    ///< scale of the sublayer's output in a residual sum
  NormPlacement norm = NormPlacement::pre;                  ///< where residual blocks normalize
  Normalization normalization = Normalization::layer_norm;  ///< the kind of every norm
  Activation activation = Activation::relu;                 ///< activation in feed-forward blocks
  PositionKind positions = PositionKind::sinusoidal;        ///< how positions are encoded
  std::size_t max_length = 256;  ///< maximum length in tokens, including `<bos>` and `<eos>`
  TiedEmbeddings tie_embeddings = TiedEmbeddings::none;  ///< which embeddings share a matrix
  PoolingKind pooling = PoolingKind::class_token;        ///< for classifier, vision_transformer
  std::size_t patch_size = 2;        ///< vision_transformer: side of a patch in pixels
  double layer_norm_epsilon = 1e-5;  ///< > 0; added to the variance or mean square of every norm
};

/// The options of a stack of encoder layers. `num_layers` is num_encoder_layers for an encoder and
/// num_decoder_layers for a language model, whose decoder is a stack of encoder layers.
EncoderOptions encoder_options(const TransformerOptions& options, std::size_t num_layers);
/// The options of a stack of decoder layers. Positions and `window` apply to self-attention
/// only.
DecoderOptions decoder_options(const TransformerOptions& options);

/// The options of an embedding: token vectors are multiplied by sqrt(d_model) [1]; the row of
/// `padding_id` has no gradient.
///
/// [1] Vaswani et al. 2017, section 3.4.
EmbeddingOptions embedding_options(const TransformerOptions& options, std::int32_t padding_id);

/// Positions and dropout of the input of a stack.
InputEmbeddingOptions input_embedding_options(const TransformerOptions& options);

/// The output projection to the vocabulary of `embedding`; shares the embedding's matrix if the
/// options tie them.
OutputProjection output_projection(const Scope& scope, const TransformerOptions& options,
                                   const Embedding& embedding);

/// The width of an attention head.
inline std::size_t head_width(const TransformerOptions& options) {
  return head_width(options.d_model, {.num_heads = options.num_heads, .d_head = options.d_head});
}

/// The encoder-decoder Transformer [1]: source ids to target logits.
///
///   parameters  source_embedding, target_embedding: Embedding; source_positions, target_positions
///               (learned positions only); encoder: Encoder; decoder: Decoder; output:
///               OutputProjection to the target vocabulary. With `tie_embeddings: all`,
///               target_embedding is also used for the source.
///   throws      ShapeError for sequences longer than max_length, ValueError for unknown ids
///
/// [1] Vaswani et al. 2017.
class Transformer : public Network {
 public:
  /// The embeddings of `padding_id` have no gradient.
  Transformer(const Scope& scope, const TransformerOptions& options, std::size_t source_vocabulary,
              std::size_t target_vocabulary, std::int32_t padding_id);

  /// The input of the encoder: token vectors plus positions, after dropout, (rows, source length,
  /// d_model).
  Tensor embed_source(const TokenBatch& source, const Mode& mode) const;
  /// The input of the decoder, (rows, target length, d_model).
  Tensor embed_target(const TokenBatch& target, const Mode& mode) const;
  TokenVectors embed(const NetworkInput& input, const Mode& mode) const override;

  /// The encoder's output, (rows, source length, d_model).
  Tensor encode(const TokenBatch& source, const Mode& mode) const;
  /// The encoder's output for given token vectors; reads only the lengths of `source`.
  Tensor encode_embedded(const Tensor& embedded, const TokenBatch& source, const Mode& mode) const;

  /// The decoder's output, (rows, target length, d_model). `target` starts with `<bos>`; position t
  /// attends to target tokens up to t and to the whole source.
  Tensor decode(const TokenBatch& target, const Tensor& memory, const TokenBatch& source,
                const Mode& mode) const;
  /// The decoder's output for given token vectors; reads only the lengths of `target` and `source`.
  Tensor decode_embedded(const Tensor& embedded, const TokenBatch& target, const Tensor& memory,
                         const TokenBatch& source, const Mode& mode) const;

  /// The decoder's output.
  Tensor features(const TokenVectors& vectors, const NetworkInput& input,
                  const Mode& mode) const override;
  Tensor logits(const Tensor& decoded) const override { return output_.logits(decoded); }
  Loss loss(const Tensor& decoded, const Ids& labels,
            const CrossEntropyOptions& loss_options) const override {
    return output_.loss(decoded, labels, loss_options);
  }
  bool causal() const override { return true; }
  /// Encodes the sources.
  std::unique_ptr<IncrementalDecoder> start_decoding(const TokenBatch& sources) const override;

  /// Logits of each next token: (rows, target length, target vocabulary).
  Tensor operator()(const TokenBatch& source, const TokenBatch& target, const Mode& mode) const;

  /// The options of the model.
  const TransformerOptions& options() const { return options_; }

 private:
  class Decoding;

  TransformerOptions options_;
  Embedding target_embedding_;
  TokenEmbedding source_, target_;
  Encoder encoder_;
  Decoder decoder_;
  OutputProjection output_;
};

}  // namespace tapestry
