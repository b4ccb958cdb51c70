#pragma once

#include <cstddef>
#include <cstdint>

#include "layers/dropout.h"
#include "layers/embedding.h"
#include "layers/encoder.h"
#include "layers/mode.h"
#include "layers/network.h"
#include "layers/output_projection.h"
#include "layers/parameters.h"
#include "layers/positions.h"
#include "layers/transformer_options.h"

namespace tapestry {

/// The decoder-only Transformer [1, 2]: ids to scores of each next token. A decoder without an
/// encoder to attend to is a stack of encoder layers under a causal mask.
///
///   parameters  embedding: Embedding; positions (learned positions only); decoder: Encoder of
///               num_decoder_layers layers; output: OutputProjection
///   call        tokens (rows, length) -> logits (rows, length, vocabulary); position t sees the
///               tokens up to t of its own row
///   throws      ShapeError for sequences longer than max_length and for lengths that do not fit
///               the rows, ValueError for ids outside the vocabulary
///
/// What follows lengths[r] in row r is padding: no token sees it, and its own logits mean nothing.
///
/// [1] Liu et al. 2018, "Generating Wikipedia by Summarizing Long Sequences", section 4.2.3.
/// [2] Radford et al. 2018, "Improving Language Understanding by Generative Pre-Training".
class LanguageModel : public Network {
 public:
  /// `num_encoder_layers` counts for nothing. `padding_id` fills up short sequences; its embedding
  /// gets no gradient.
  LanguageModel(Parameters& parameters, const TransformerOptions& options, std::size_t vocabulary,
                std::int32_t padding_id);

  /// What the output projection reads, (rows, length, d_model).
  Tensor decode(const TokenBatch& tokens, const Mode& mode = Mode::inference()) const;

  TokenVectors embed(const NetworkInput& input,
                     const Mode& mode = Mode::inference()) const override;
  Tensor features(const TokenVectors& vectors, const NetworkInput& input,
                  const Mode& mode = Mode::inference()) const override;
  Tensor logits(const Tensor& decoded) const override { return output_.logits(decoded); }
  Loss loss(const Tensor& decoded, const Ids& labels,
            const CrossEntropyOptions& loss_options) const override {
    return output_.loss(decoded, labels, loss_options);
  }
  bool causal() const override { return true; }

  /// Scores of each next token.
  Tensor operator()(const TokenBatch& tokens, const Mode& mode = Mode::inference()) const;

  const TransformerOptions& options() const { return options_; }

 private:
  TransformerOptions options_;
  Embedding embedding_;
  Positions positions_;
  Dropout dropout_;
  Encoder decoder_;
  OutputProjection output_;
};

}  // namespace tapestry
