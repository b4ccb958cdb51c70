#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "layers/embedding.h"
#include "layers/encoder_decoder.h"
#include "layers/heads.h"
#include "layers/mode.h"
#include "layers/model.h"
#include "layers/parameters.h"
#include "layers/transformer_options.h"

namespace tapestry {

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
  /// The same from given token vectors; only the lengths of `source` are read.
  Tensor encode_embedded(const Tensor& embedded, const TokenBatch& source, const Mode& mode) const;

  /// The decoder's output, (rows, target length, d_model). `target` starts with `<bos>`; position t
  /// attends to target tokens up to t and to the whole source.
  Tensor decode(const TokenBatch& target, const Tensor& memory, const TokenBatch& source,
                const Mode& mode) const;
  /// The same from given token vectors; only the lengths of `target` and `source` are read.
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

  /// The options that the model was made with.
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
