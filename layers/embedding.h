// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "autograd/ids.h"
#include "autograd/tensor.h"
#include "layers/basic_layers.h"
#include "layers/parameters.h"

namespace tapestry {

/// Options of Embedding. The member initializers are the defaults.
struct EmbeddingOptions {
  std::optional<std::int32_t> padding_id{};  ///< the row of this id has no gradient
  /// Scale of the vectors; sqrt(d_model) in a Transformer (Vaswani et al. 2017, section 3.4).
  double scale = 1.0;
  Initializer weight{};  ///< initial values; empty: normal with variance 1 / d_model
};

/// Token vectors: y = scale * weight[id].
///
///   parameters  weight (vocabulary, d_model), by default normal with variance 1 / d_model
///   call        ids (rows, length) -> (rows, length, d_model)
///   throws      ValueError for an id outside the vocabulary
class Embedding {
 public:
  Embedding(const Scope& scope, std::size_t vocabulary, std::size_t d_model,
            const EmbeddingOptions& options = {});  ///< Creates the parameters.
  Tensor operator()(const Ids& ids) const;  ///< ids (rows, length) -> (rows, length, d_model)
  /// (vocabulary, d_model), for an output projection with a tied weight.
  const Tensor& weight() const { return weight_; }

 private:
  const std::string* path_;
  Tensor weight_;
  EmbeddingOptions options_;
};

/// The sinusoidal table [1], (length, d_model):
///
///     PE(pos, 2i) = sin(pos / 10000^(2i / d_model)),  PE(pos, 2i + 1) = cos(the same).
///
/// [1] Vaswani et al. 2017, section 3.5.
Tensor sinusoidal_positions(std::size_t length, std::size_t d_model, DType dtype);

/// How a model encodes the position of a token: by a vector that is added to the token vector,
/// either fixed (sinusoidal) or learned; not at all; or in self-attention, by rotary positions [1]
/// or ALiBi [2], which are options of MultiHeadAttention.
///
/// [1] Su et al. 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding".
/// [2] Press et al. 2022, "Train Short, Test Long: Attention with Linear Biases Enables
///     Input Length Extrapolation".
enum class PositionKind {
  sinusoidal,  ///< adds sinusoidal_positions()
  learned,     ///< adds a parameter for each position
  none,        ///< no positions: without a mask, the order of tokens has no influence
  rotary,      ///< rotates queries and keys, see rotary()
  alibi        ///< subtracts distances from scores, see AttentionOptions::alibi
};

/// Options of Positions. The member initializers are the defaults.
struct PositionOptions {
  PositionKind kind = PositionKind::sinusoidal;  ///< how positions are encoded
  std::size_t max_length = 256;                  ///< maximum sequence length in tokens
};

/// Adds a position vector to each token vector, for sinusoidal and learned positions; returns x
/// unchanged for the other kinds. For all kinds, it rejects sequences longer than max_length.
///
///   parameters  learned: weight (max_length, d_model), normal with variance 1 / d_model; else none
///   call        x (batch, length, d_model), the position of its first token -> the same shape
///   throws      ShapeError if x has a different shape or its last position is not below max_length
class Positions {
 public:
  /// Creates the parameters.
  Positions(const Scope& scope, std::size_t d_model, const PositionOptions& options = {});
  /// x (batch, length, d_model), the position of its first token -> the same shape
  Tensor operator()(const Tensor& x, std::size_t first = 0) const;

 private:
  const std::string* path_;
  std::size_t max_length_, d_model_;
  Tensor table_;  // (max_length, d_model); absent if nothing is added
};

/// Height, width and channels of an image.
struct ImageShape {
  std::size_t height = 0;    ///< in pixels
  std::size_t width = 0;     ///< in pixels
  std::size_t channels = 0;  ///< values per pixel

  /// Number of values of an image: height * width * channels.
  std::size_t values() const { return height * width * channels; }
};

/// Converts an image to a sequence of tokens [1]: a learned class token, then a linear projection
/// of each square patch, row by row from the top left.
///
///   parameters  projection: Linear (patch_size^2 * channels -> d_model); class_token (1, 1,
///               d_model), normal with variance 1 / d_model
///   call        images (rows, height * width * channels) -> (rows, 1 + patches, d_model)
///   throws      ShapeError if the image is empty, if patch_size does not divide its height and
///               width, or if `images` does not have the shape above
///
/// [1] Dosovitskiy et al. 2021, "An Image is Worth 16x16 Words", eq. 1.
class PatchEmbedding {
 public:
  PatchEmbedding(const Scope& scope, const ImageShape& image, std::size_t patch_size,
                 std::size_t d_model);  ///< Creates the parameters.
  /// images (rows, height * width * channels) -> (rows, 1 + patches, d_model)
  Tensor operator()(const Tensor& images) const;

 private:
  const std::string* path_;
  ImageShape image_;
  std::size_t patch_size_;
  Linear projection_;
  Tensor class_token_;
};

/// Options of InputEmbedding. The member initializers are the defaults.
struct InputEmbeddingOptions {
  PositionOptions positions{};  ///< how positions are encoded
  double dropout = 0.0;         ///< dropout rate of the sum, in [0, 1]
};

/// The input of a stack of layers: dropout(source(input) + positions), where the source is an
/// Embedding of tokens or a PatchEmbedding of images.
///
///   parameters  `<prefix>positions`: Positions; the source is passed in with its parameters
///   call        the input of the source -> (rows, length, d_model)
///   throws      the errors of the source and Positions; ValueError if the rate is outside [0, 1]
template <class Source>
class InputEmbedding {
 public:
  InputEmbedding(const Source& source, const Scope& scope, std::size_t d_model,
                 const InputEmbeddingOptions& options = {}, const std::string& prefix = "")
      : source_(source),
        positions_(scope / (prefix + "positions"), d_model, options.positions),
        dropout_(scope / (prefix + "dropout"), options.dropout) {}  ///< Creates the parameters.

  /// The vectors of inputs at the positions first, first + 1, ...
  template <class Input>
  Tensor operator()(const Input& input, const Mode& mode, std::size_t first = 0) const {
    return dropout_(positions_(source_(input), first), mode);
  }
  /// The embedding that was passed to the constructor.
  const Source& source() const { return source_; }

 private:
  Source source_;
  Positions positions_;
  Dropout dropout_;
};

/// The input of a stack that reads tokens.
using TokenEmbedding = InputEmbedding<Embedding>;
/// The input of a stack that reads images.
using ImageEmbedding = InputEmbedding<PatchEmbedding>;

}  // namespace tapestry
