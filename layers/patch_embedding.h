#pragma once

#include <cstddef>
#include <string>

#include "autograd/tensor.h"
#include "layers/linear.h"
#include "layers/parameters.h"

namespace tapestry {

/// Height, width and channels of an image.
struct ImageShape {
  std::size_t height = 0, width = 0, channels = 0;

  std::size_t values() const { return height * width * channels; }
};

/// An image as a sequence of tokens [1]: cut into squares from the top left, row by row, each of
/// which goes through one linear map, behind one learned vector that stands for the class.
///
///   parameters  projection: Linear (patch_size^2 * channels -> d_model); class_token (1, 1,
///               d_model), normal with variance 1 / d_model
///   call        images (rows, height * width * channels) -> (rows, 1 + patches, d_model)
///   throws      ShapeError if the image is empty or patch_size does not divide it, or if images
///               have another shape
///
/// [1] Dosovitskiy et al. 2021, "An Image is Worth 16x16 Words", eq. 1.
class PatchEmbedding {
 public:
  PatchEmbedding(const Scope& scope, const ImageShape& image, std::size_t patch_size,
                 std::size_t d_model);
  Tensor operator()(const Tensor& images) const;

 private:
  const std::string* path_;
  ImageShape image_;
  std::size_t patch_size_;
  Linear projection_;
  Tensor class_token_;
};

}  // namespace tapestry
