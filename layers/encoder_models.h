// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "autograd/attention_mask.h"
#include "layers/embedding.h"
#include "layers/encoder_decoder.h"
#include "layers/heads.h"
#include "layers/model.h"
#include "layers/parameters.h"
#include "layers/transformer.h"

namespace tapestry {

/// The parts of a model: an embedding block, a stack of encoder layers and a head.
template <class Source, class Head>
struct EncoderParts {
  InputEmbedding<Source> embedding;  ///< the input of the stack
  Encoder encoder;                   ///< the stack
  Head head;                         ///< maps the output of the stack to logits
};

/// A model with one stack of encoder layers between an embedding block and a head. The models
/// below differ in their inputs, in the attention mask and in the head.
///
/// Source  Embedding or PatchEmbedding
/// Head    OutputProjection or ClassificationHead
/// throws  ShapeError for more tokens than max_length and for lengths that do not match the rows,
///         ValueError for ids outside the vocabulary
///
/// Tokens of row r from lengths[r] on are padding: no other token attends to them, and their logits
/// are meaningless. The embedding of `padding_id` has no gradient.
template <class Source, class Head>
class EncoderModel : public Network {
 public:
  /// The logits of the head.
  Tensor logits(const Tensor& features) const override { return parts_.head.logits(features); }
  /// The loss of the head.
  Loss loss(const Tensor& features, const Ids& labels,
            const CrossEntropyOptions& loss_options) const override {
    return parts_.head.loss(features, labels, loss_options);
  }
  /// Returns false: each token attends to all other tokens.
  bool causal() const override { return false; }

  /// The options of the model.
  const TransformerOptions& options() const { return options_; }

 protected:
  /// For derived classes, which construct the parts.
  EncoderModel(const TransformerOptions& options, const EncoderParts<Source, Head>& parts)
      : options_(options), parts_(parts) {}

  /// The parts of the model.
  const EncoderParts<Source, Head>& parts() const { return parts_; }

 private:
  TransformerOptions options_;
  EncoderParts<Source, Head> parts_;
};

/// A model of the target tokens. Each token attends to all tokens of its row except padding.
template <class Head>
class TokenEncoderModel : public EncoderModel<Embedding, Head> {
 public:
  /// The vectors of the target tokens, (rows, length, d_model).
  TokenVectors embed(const NetworkInput& input, const Mode& mode) const override {
    return {.target = this->parts().embedding(input.target.ids, mode)};
  }
  /// The output of the stack, (rows, length, d_model).
  Tensor features(const TokenVectors& vectors, const NetworkInput& input,
                  const Mode& mode) const override {
    const AttentionMask mask = AttentionMask::padding(input.target.lengths);
    return this->parts().encoder(vectors.target, mask, mode);
  }

 protected:
  using EncoderModel<Embedding, Head>::EncoderModel;  ///< the constructors of EncoderModel
};

/// The decoder-only Transformer [1, 2]: predicts each next token. A decoder without cross-attention
/// is a stack of encoder layers with a causal mask.
///
///   parameters  embedding: Embedding; positions (learned positions only); decoder: Encoder of
///               num_decoder_layers layers; output: OutputProjection
///   input       target tokens (rows, length) -> logits (rows, length, vocabulary); position t
///               attends to the tokens up to t of the same row
///
/// [1] Liu et al. 2018, "Generating Wikipedia by Summarizing Long Sequences", section 4.2.3.
/// [2] Radford et al. 2018, "Improving Language Understanding by Generative Pre-Training".
class LanguageModel : public TokenEncoderModel<OutputProjection> {
 public:
  LanguageModel(const Scope& scope, const TransformerOptions& options, std::size_t vocabulary,
                std::int32_t padding_id);  ///< Creates the parameters.

  Tensor features(const TokenVectors& vectors, const NetworkInput& input,
                  const Mode& mode) const override;
  bool causal() const override { return true; }
  std::unique_ptr<IncrementalDecoder> start_decoding(const TokenBatch& sources) const override;

  /// The features of tokens, (rows, length, d_model).
  Tensor decode(const TokenBatch& tokens, const Mode& mode) const;
  /// Logits of each next token, (rows, length, vocabulary).
  Tensor operator()(const TokenBatch& tokens, const Mode& mode) const;

 private:
  class Decoding;
};

/// An encoder that predicts masked tokens from the tokens on both sides [1].
///
///   parameters  embedding: Embedding; positions (learned positions only); encoder: Encoder;
///               output: OutputProjection
///   input       target tokens, some of them masked -> logits (rows, length, vocabulary)
///
/// [1] Devlin et al. 2019, "BERT: Pre-training of Deep Bidirectional Transformers".
class MaskedLanguageModel : public TokenEncoderModel<OutputProjection> {
 public:
  MaskedLanguageModel(const Scope& scope, const TransformerOptions& options, std::size_t vocabulary,
                      std::int32_t padding_id);  ///< Creates the parameters.
};

/// An encoder that classifies sentences [1]. Its parameters, except the head, have the same names
/// as in MaskedLanguageModel, so that it can be initialized from such a model.
///
///   parameters  embedding: Embedding; positions (learned positions only); encoder: Encoder; head:
///               ClassificationHead
///   input       source tokens, beginning with the class token -> logits (rows, 1, classes)
///
/// [1] Devlin et al. 2019, "BERT", section 3.2.
class Classifier : public EncoderModel<Embedding, ClassificationHead> {
 public:
  Classifier(const Scope& scope, const TransformerOptions& options, std::size_t vocabulary,
             std::size_t classes, std::int32_t padding_id);  ///< Creates the parameters.

  TokenVectors embed(const NetworkInput& input, const Mode& mode) const override;
  Tensor features(const TokenVectors& vectors, const NetworkInput& input,
                  const Mode& mode) const override;
};

/// An encoder that classifies images from their patches [1].
///
///   parameters  patches: PatchEmbedding; positions (learned positions only); encoder: Encoder;
///               head: ClassificationHead
///   input       images -> logits (rows, 1, classes)
///   throws      ShapeError if images have a different shape, or if there are more than max_length
///               patches and class token together
///
/// [1] Dosovitskiy et al. 2021, "An Image is Worth 16x16 Words".
class VisionTransformer : public EncoderModel<PatchEmbedding, ClassificationHead> {
 public:
  VisionTransformer(const Scope& scope, const TransformerOptions& options, const ImageShape& image,
                    std::size_t classes);  ///< Creates the parameters.

  TokenVectors embed(const NetworkInput& input, const Mode& mode) const override;
  Tensor features(const TokenVectors& vectors, const NetworkInput& input,
                  const Mode& mode) const override;
};

/// An encoder that predicts a label for each token, such as BIO labels of named entities [1]. Its
/// parameters, except the head, have the same names as in MaskedLanguageModel, so that it can be
/// initialized from such a model.
///
///   parameters  embedding: Embedding; positions (learned positions only); encoder: Encoder; head:
///               Linear (d_model -> classes)
///   input       target tokens -> logits (rows, length, classes)
///
/// [1] Devlin et al. 2019, "BERT", section 5.3.
class Tagger : public TokenEncoderModel<ClassificationHead> {
 public:
  Tagger(const Scope& scope, const TransformerOptions& options, std::size_t vocabulary,
         std::size_t classes, std::int32_t padding_id);  ///< Creates the parameters.
};

}  // namespace tapestry
