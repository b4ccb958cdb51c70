// SPDX-License-Identifier: BSD-3-Clause
#include "layers/embedding.h"

#include <fmt/format.h>

#include <cmath>

#include "autograd/error.h"
#include "autograd/kernels/portable_math.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/shape_ops.h"

namespace tapestry {
namespace {

double sinusoidal_position(std::size_t pos, std::size_t j, std::size_t d_model) {
  const auto even = static_cast<double>(j - j % 2);
  const double angle =
      static_cast<double>(pos) / portable::pow(10000.0, even / static_cast<double>(d_model));
  return j % 2 == 0 ? portable::sin(angle) : portable::cos(angle);
}

Tensor position_table(const Scope& scope, std::size_t d_model, const PositionOptions& options) {
  const std::size_t max_length = options.max_length;
  switch (options.kind) {
    case PositionKind::sinusoidal:
      return scope.constant({max_length, d_model}, [&](DType dtype) {
        return sinusoidal_positions(max_length, d_model, dtype);
      });
    case PositionKind::learned:
      return scope.parameter("weight", {max_length, d_model},
                             normal_initializer(1.0 / std::sqrt(static_cast<double>(d_model))));
    case PositionKind::none:
    case PositionKind::rotary:
    case PositionKind::alibi:
      return {};
  }
  throw ValueError("positions: unknown kind");
}

/// Throws ShapeError unless the image consists of whole patches.
std::size_t values_per_patch(const Scope& scope, const ImageShape& image, std::size_t patch_size) {
  if (patch_size == 0 || image.values() == 0 || image.height % patch_size != 0 ||
      image.width % patch_size != 0) {
    const LayerPath here(scope.path());
    throw ShapeError(fmt::format(
        "patch embedding: an image of {} x {} cannot be divided into patches of {} x {}",
        image.height, image.width, patch_size, patch_size));
  }
  return patch_size * patch_size * image.channels;
}

}  // namespace

Embedding::Embedding(const Scope& scope, std::size_t vocabulary, std::size_t d_model,
                     const EmbeddingOptions& options)
    : path_(&scope.path()),
      weight_(scope.parameter(
          "weight", {vocabulary, d_model},
          options.weight ? options.weight
                         : normal_initializer(1.0 / std::sqrt(static_cast<double>(d_model))))),
      options_(options) {}

Tensor Embedding::operator()(const Ids& ids) const {
  const LayerPath here(*path_);
  return embedding(weight_, ids, options_.padding_id, options_.scale);
}

Tensor sinusoidal_positions(std::size_t length, std::size_t d_model, DType dtype) {
  Tensor table = Tensor::empty({length, d_model}, dtype);
  dispatch(dtype, [&]<class T>() {
    const auto values = table.mutable_values<T>();
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<T>(sinusoidal_position(i / d_model, i % d_model, d_model));
    }
  });
  return table;
}

Positions::Positions(const Scope& scope, std::size_t d_model, const PositionOptions& options)
    : path_(&scope.path()),
      max_length_(options.max_length),
      d_model_(d_model),
      table_(position_table(scope, d_model, options)) {}

Tensor Positions::operator()(const Tensor& x, std::size_t first) const {
  const LayerPath here(*path_);
  if (x.rank() != 3 || x.shape()[2] != d_model_) {
    throw ShapeError(fmt::format("positions: x has shape {}, expected (batch, length, {})",
                                 to_string(x.shape()), d_model_));
  }
  const std::size_t end = first + x.shape()[1];
  if (end > max_length_) {
    throw ShapeError(
        fmt::format("positions: the sequence has {} tokens, expected at most {} "
                    "(max_length)",
                    end, max_length_));
  }
  if (!table_.defined()) return x;
  return add(
      x, slice(table_, 0, static_cast<std::ptrdiff_t>(first), static_cast<std::ptrdiff_t>(end)));
}

PatchEmbedding::PatchEmbedding(const Scope& scope, const ImageShape& image, std::size_t patch_size,
                               std::size_t d_model)
    : path_(&scope.path()),
      image_(image),
      patch_size_(patch_size),
      projection_(scope / "projection", values_per_patch(scope, image, patch_size), d_model),
      class_token_(
          scope.parameter("class_token", {1, 1, d_model},
                          normal_initializer(1.0 / std::sqrt(static_cast<double>(d_model))))) {}

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
