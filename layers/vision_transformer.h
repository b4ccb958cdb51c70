#pragma once

#include <cstddef>

#include "layers/dropout.h"
#include "layers/encoder.h"
#include "layers/linear.h"
#include "layers/mode.h"
#include "layers/network.h"
#include "layers/parameters.h"
#include "layers/patch_embedding.h"
#include "layers/positions.h"
#include "layers/transformer_options.h"

namespace tapestry {

/// An encoder that tells the class of an image from its patches [1].
///
///   parameters  patches: PatchEmbedding; positions (learned positions only);
///               encoder: Encoder; head: Linear (d_model -> classes)
///   input       images -> logits (rows, 1, classes)
///   throws      ShapeError if images have another shape, or more patches, with the
///               class token, than max_length
///
/// [1] Dosovitskiy et al. 2021, "An Image is Worth 16x16 Words".
class VisionTransformer : public Network {
 public:
  VisionTransformer(Parameters& parameters, const TransformerOptions& options,
                    const ImageShape& image, std::size_t classes);

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
  PatchEmbedding patches_;
  Positions positions_;
  Dropout dropout_;
  Encoder encoder_;
  Linear head_;
};

}  // namespace tapestry
