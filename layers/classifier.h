#pragma once

#include <cstddef>
#include <cstdint>

#include "layers/dropout.h"
#include "layers/embedding.h"
#include "layers/encoder.h"
#include "layers/linear.h"
#include "layers/mode.h"
#include "layers/network.h"
#include "layers/parameters.h"
#include "layers/positions.h"
#include "layers/transformer_options.h"

namespace tapestry {

/// An encoder that tells the class of a sentence [1]. Its parameters up to the head have the names
/// of a MaskedLanguageModel's, so that it can begin with those.
///
///   parameters  embedding: Embedding; positions (learned positions only);
///               encoder: Encoder; head: Linear (d_model -> classes)
///   input       source tokens, the first of which stands for the class
///               -> logits (rows, 1, classes)
///   throws      ShapeError for sequences longer than max_length,
///               ValueError for ids outside the vocabulary
///
/// [1] Devlin et al. 2019, "BERT", section 3.2.
class Classifier : public Network {
 public:
  /// `padding_id` fills up short sequences; its embedding gets no gradient.
  Classifier(Parameters& parameters, const TransformerOptions& options, std::size_t vocabulary,
             std::size_t classes, std::int32_t padding_id);

  TokenVectors embed(const NetworkInput& input,
                     const Mode& mode = Mode::inference()) const override;
  Tensor features(const TokenVectors& vectors, const NetworkInput& input,
                  const Mode& mode = Mode::inference()) const override;
  Tensor logits(const Tensor& pooled) const override { return head_(pooled); }
  Loss loss(const Tensor& pooled, const Ids& labels,
            const CrossEntropyOptions& loss_options) const override {
    return cross_entropy(head_(pooled), labels, loss_options);
  }
  bool causal() const override { return false; }

 private:
  PoolingKind pooling_;
  Embedding embedding_;
  Positions positions_;
  Dropout dropout_;
  Encoder encoder_;
  Linear head_;
};

}  // namespace tapestry
