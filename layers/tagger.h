#pragma once

#include "layers/encoder_models.h"

namespace tapestry {

/// An encoder that gives each token a label, such as the parts of named entities [1]. Its
/// parameters up to the head have the names of a MaskedLanguageModel's, so that it can be
/// initialized from one.
///
///   parameters  embedding: Embedding; positions (learned positions only); encoder: Encoder; head:
///               Linear (d_model -> classes)
///   input       target tokens -> logits (rows, length, classes)
///
/// [1] Devlin et al. 2019, "BERT", section 5.3.
class Tagger : public EncoderModel<Embedding, ClassificationHead> {
 public:
  Tagger(const Scope& scope, const TransformerOptions& options, std::size_t vocabulary,
         std::size_t classes, std::int32_t padding_id);

  TokenVectors embed(const NetworkInput& input,
                     const Mode& mode = Mode::inference()) const override;
  Tensor features(const TokenVectors& vectors, const NetworkInput& input,
                  const Mode& mode = Mode::inference()) const override;
};

}  // namespace tapestry
