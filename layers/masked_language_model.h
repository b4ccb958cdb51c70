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

/// An encoder that guesses hidden tokens from those on both sides [1].
///
///   parameters  embedding: Embedding; positions (learned positions only);
///               encoder: Encoder; output: OutputProjection
///   input       target tokens, some of them hidden -> logits (rows, length, vocabulary)
///   throws      ShapeError for sequences longer than max_length, ValueError for ids outside the
///               vocabulary
///
/// [1] Devlin et al. 2019, "BERT: Pre-training of Deep Bidirectional Transformers".
class MaskedLanguageModel : public Network {
 public:
  /// `padding_id` fills up short sequences; its embedding gets no gradient.
  MaskedLanguageModel(Parameters& parameters, const TransformerOptions& options,
                      std::size_t vocabulary, std::int32_t padding_id);

  TokenVectors embed(const NetworkInput& input,
                     const Mode& mode = Mode::inference()) const override;
  Tensor features(const TokenVectors& vectors, const NetworkInput& input,
                  const Mode& mode = Mode::inference()) const override;
  Tensor logits(const Tensor& encoded) const override { return output_.logits(encoded); }
  Loss loss(const Tensor& encoded, const Ids& labels,
            const CrossEntropyOptions& loss_options) const override {
    return output_.loss(encoded, labels, loss_options);
  }
  bool causal() const override { return false; }

 private:
  Embedding embedding_;
  Positions positions_;
  Dropout dropout_;
  Encoder encoder_;
  OutputProjection output_;
};

}  // namespace tapestry
