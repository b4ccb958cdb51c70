#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "autograd/ids.h"
#include "autograd/tensor.h"
#include "layers/basic_layers.h"
#include "layers/mode.h"
#include "layers/parameters.h"
#include "layers/transformer_options.h"

namespace tapestry {

/// Token vectors: y = sqrt(d_model) * weight[id] [1].
///
///   parameters  weight (vocabulary, d_model), normal with variance 1 / d_model
///   call        ids (rows, length) -> (rows, length, d_model)
///   throws      ValueError for an id outside the vocabulary
///
/// The row of `padding_id` gets no gradient.
///
/// [1] Vaswani et al. 2017, section 3.4.
class Embedding {
 public:
  Embedding(const Scope& scope, std::size_t vocabulary, std::size_t d_model,
            std::optional<std::int32_t> padding_id);
  Tensor operator()(const Ids& ids) const;
  /// (vocabulary, d_model), for an output projection that shares it.
  const Tensor& weight() const { return weight_; }

 private:
  const std::string* path_;
  Tensor weight_;
  std::optional<std::int32_t> padding_id_;
  double factor_;
};

/// The sinusoidal table [1], (length, d_model):
///
///     PE(pos, 2i) = sin(pos / 10000^(2i / d_model)),  PE(pos, 2i + 1) = cos(the same).
///
/// [1] Vaswani et al. 2017, section 3.5.
Tensor sinusoidal_positions(std::size_t length, std::size_t d_model, DType dtype);

/// Adds to each token vector the vector of its position. Where positions come in elsewhere or not
/// at all, it changes nothing, but refuses what is too long all the same.
///
///   parameters  learned: weight (max_length, d_model), normal with variance 1 / d_model; else none
///   call        x (batch, length, d_model) -> the same shape
///   throws      ShapeError if x has another shape or length is greater than max_length
class Positions {
 public:
  Positions(const Scope& scope, PositionKind kind, std::size_t max_length, std::size_t d_model);
  Tensor operator()(const Tensor& x) const;

 private:
  const std::string* path_;
  std::size_t max_length_, d_model_;
  Tensor table_;  // (max_length, d_model), absent where nothing is added
};

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

/// What a stack of layers reads: embedded tokens or patches, plus their positions, after dropout.
///
///   parameters  those of the embedding and of Positions
///   call        what the embedding takes -> (rows, length, d_model)
template <class Source>
class InputEmbedding {
 public:
  InputEmbedding(const Source& source, const Positions& positions, const Dropout& dropout)
      : source_(source), positions_(positions), dropout_(dropout) {}

  template <class Input>
  Tensor operator()(const Input& input, const Mode& mode) const {
    return dropout_(positions_(source_(input)), mode);
  }
  const Source& source() const { return source_; }

 private:
  Source source_;
  Positions positions_;
  Dropout dropout_;
};

using TokenEmbedding = InputEmbedding<Embedding>;
using ImageEmbedding = InputEmbedding<PatchEmbedding>;

}  // namespace tapestry
