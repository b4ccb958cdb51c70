#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "layers/basic_layers.h"
#include "layers/embedding.h"
#include "layers/encoder.h"
#include "layers/heads.h"
#include "layers/network.h"
#include "layers/parameters.h"
#include "layers/transformer_options.h"

namespace tapestry {

/// A model that is one stack of encoder layers between an embedding and a head: the common part of
/// the four models below, which differ in what they read, in the mask and in the head.
///
///   throws  ShapeError for more tokens than max_length and for lengths that do not fit the rows,
///           ValueError for ids outside the vocabulary
///
/// Tokens of row r from lengths[r] on are padding: no other token attends to them, and their own
/// logits mean nothing.
class EncoderModel : public Network {
 public:
  TokenVectors embed(const NetworkInput& input,
                     const Mode& mode = Mode::inference()) const override;
  Tensor features(const TokenVectors& vectors, const NetworkInput& input,
                  const Mode& mode = Mode::inference()) const override;
  Tensor logits(const Tensor& features) const override;
  Loss loss(const Tensor& features, const Ids& labels,
            const CrossEntropyOptions& loss_options) const override;
  bool causal() const override { return causal_; }

  const TransformerOptions& options() const { return options_; }

 protected:
  /// Token models: predict a token at each position of the target.
  EncoderModel(const Scope& scope, const TransformerOptions& options, const char* stack,
               std::size_t num_layers, bool causal, std::size_t vocabulary,
               std::int32_t padding_id);
  /// Classifiers of sentences, which are the source.
  EncoderModel(const Scope& scope, const TransformerOptions& options, std::size_t vocabulary,
               std::size_t classes, std::int32_t padding_id);
  /// Classifiers of images.
  EncoderModel(const Scope& scope, const TransformerOptions& options, const ImageShape& image,
               std::size_t classes);

 private:
  TransformerOptions options_;
  bool causal_ = false;
  bool reads_source_ = false;
  std::optional<TokenEmbedding> tokens_;  // one of these two
  std::optional<ImageEmbedding> patches_;
  Encoder encoder_;
  std::optional<OutputProjection> projection_;  // one of these two
  std::optional<ClassificationHead> classes_;
};

/// The decoder-only Transformer [1, 2]: logits of each next token. A decoder without an encoder to
/// attend to is a stack of encoder layers under a causal mask.
///
///   parameters  embedding: Embedding; positions (learned positions only); decoder: Encoder of
///               num_decoder_layers layers; output: OutputProjection
///   input       target tokens (rows, length) -> logits (rows, length, vocabulary); position t
///               attends to the tokens up to t of its own row
///
/// [1] Liu et al. 2018, "Generating Wikipedia by Summarizing Long Sequences", section 4.2.3.
/// [2] Radford et al. 2018, "Improving Language Understanding by Generative Pre-Training".
class LanguageModel : public EncoderModel {
 public:
  /// `num_encoder_layers` is not used. `padding_id` fills up short sequences; its embedding gets no
  /// gradient.
  LanguageModel(const Scope& scope, const TransformerOptions& options, std::size_t vocabulary,
                std::int32_t padding_id);

  /// The features of tokens, (rows, length, d_model).
  Tensor decode(const TokenBatch& tokens, const Mode& mode = Mode::inference()) const;
  /// Logits of each next token.
  Tensor operator()(const TokenBatch& tokens, const Mode& mode = Mode::inference()) const;
};

/// An encoder that predicts masked tokens from those on both sides [1].
///
///   parameters  embedding: Embedding; positions (learned positions only); encoder: Encoder;
///               output: OutputProjection
///   input       target tokens, some of them masked -> logits (rows, length, vocabulary)
///
/// [1] Devlin et al. 2019, "BERT: Pre-training of Deep Bidirectional Transformers".
class MaskedLanguageModel : public EncoderModel {
 public:
  MaskedLanguageModel(const Scope& scope, const TransformerOptions& options, std::size_t vocabulary,
                      std::int32_t padding_id);
};

/// An encoder that classifies sentences [1]. Its parameters up to the head have the names of a
/// MaskedLanguageModel's, so that it can be initialized from one.
///
///   parameters  embedding: Embedding; positions (learned positions only); encoder: Encoder; head:
///               Linear (d_model -> classes)
///   input       source tokens, the first of which is the class token -> logits (rows, 1, classes)
///
/// [1] Devlin et al. 2019, "BERT", section 3.2.
class Classifier : public EncoderModel {
 public:
  Classifier(const Scope& scope, const TransformerOptions& options, std::size_t vocabulary,
             std::size_t classes, std::int32_t padding_id);
};

/// An encoder that classifies images by their patches [1].
///
///   parameters  patches: PatchEmbedding; positions (learned positions only); encoder: Encoder;
///               head: Linear (d_model -> classes)
///   input       images -> logits (rows, 1, classes)
///   throws      ShapeError if images have another shape, or more patches, with the class token,
///               than max_length
///
/// [1] Dosovitskiy et al. 2021, "An Image is Worth 16x16 Words".
class VisionTransformer : public EncoderModel {
 public:
  VisionTransformer(const Scope& scope, const TransformerOptions& options, const ImageShape& image,
                    std::size_t classes);
};

}  // namespace tapestry
