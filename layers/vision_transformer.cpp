#include "layers/vision_transformer.h"

#include "layers/pooling.h"

namespace tapestry {

VisionTransformer::VisionTransformer(Parameters& parameters, const TransformerOptions& o,
                                     const ImageShape& image, std::size_t classes)
    : pooling_(o.pooling),
      patches_(Scope(parameters) / "patches", image, o.patch_size, o.d_model),
      positions_(Scope(parameters) / "positions", o.positions, o.max_length, o.d_model),
      dropout_(Scope(parameters) / "dropout", o.embedding_dropout_rate()),
      encoder_(Scope(parameters) / "encoder", o),
      head_(Scope(parameters) / "head", o.d_model, classes) {}

TokenVectors VisionTransformer::embed(const NetworkInput& input, const Mode& mode) const {
  return {.source = dropout_(positions_(patches_(input.images)), mode)};
}

Tensor VisionTransformer::features(const TokenVectors& vectors, const NetworkInput& /*input*/,
                                   const Mode& mode) const {
  return pool(pooling_, encoder_(vectors.source, {}, mode), {});
}

}  // namespace tapestry
