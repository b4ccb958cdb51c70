#include "layers/patch_embedding.h"

#include <fmt/format.h>

#include <cmath>

#include "autograd/error.h"
#include "autograd/layer_path.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/shape_ops.h"

namespace tapestry {

PatchEmbedding::PatchEmbedding(const Scope& scope, const ImageShape& image, std::size_t patch_size,
                               std::size_t d_model)
    : path_(&scope.path()),
      image_(image),
      patch_size_(patch_size),
      projection_(scope / "projection", patch_size * patch_size * image.channels, d_model),
      class_token_(
          scope.parameter("class_token", {1, 1, d_model},
                          normal_initializer(1.0 / std::sqrt(static_cast<double>(d_model))))) {
  if (patch_size == 0 || image.values() == 0 || image.height % patch_size != 0 ||
      image.width % patch_size != 0) {
    const LayerPath here(*path_);
    throw ShapeError(fmt::format("patch embedding: an image of {} x {} has no patches of {} x {}",
                                 image.height, image.width, patch_size, patch_size));
  }
}

Tensor PatchEmbedding::operator()(const Tensor& images) const {
  const LayerPath here(*path_);
  if (images.rank() != 2 || images.shape()[1] != image_.values()) {
    throw ShapeError(
        fmt::format("patch embedding: images have shape {}, expected (rows, {} * {} * "
                    "{} values)",
                    to_string(images.shape()), image_.height, image_.width, image_.channels));
  }
  const std::size_t rows = images.shape()[0], p = patch_size_;
  const std::size_t down = image_.height / p, across = image_.width / p;
  const Tensor squares =
      permute(reshape(images, {rows, down, p, across, p, image_.channels}), {0, 1, 3, 2, 4, 5});
  const Tensor patches =
      projection_(reshape(squares, {rows, down * across, p * p * image_.channels}));
  const std::size_t d_model = patches.shape()[2];
  const Tensor tokens = add(Tensor::zeros({rows, 1, d_model}, patches.dtype()), class_token_);
  return concat({tokens, patches}, 1);
}

}  // namespace tapestry
