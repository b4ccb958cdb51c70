#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "autograd/kernels/memory.h"
#include "autograd/kernels/parallel.h"
#include "autograd/named_tensor.h"

namespace tapestry {

/// The gradients of the parameters that have one, divided into pieces for the threads. The division
/// depends only on shapes, so that results do not depend on the number of threads.
class GradientPieces {
 public:
  /// A part of the gradient of one parameter.
  struct Piece {
    std::size_t index;      ///< among all pieces
    std::size_t parameter;  ///< index of its parameter in the list
    std::size_t begin;      ///< its first element in that parameter
    std::size_t size;       ///< in [1, kernels::elements_per_piece]
  };

  /// Parameters without a gradient have no pieces.
  explicit GradientPieces(std::span<const NamedTensor> parameters) {
    gradients_.reserve(parameters.size());
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      const Tensor& gradient = gradients_.emplace_back(parameters[p].tensor.gradient());
      const std::size_t n = gradient.defined() ? gradient.size() : 0;
      for (std::size_t begin = 0; begin < n; begin += kernels::elements_per_piece) {
        pieces_.push_back({.index = pieces_.size(),
                           .parameter = p,
                           .begin = begin,
                           .size = std::min(kernels::elements_per_piece, n - begin)});
      }
    }
  }

  /// Number of pieces of all parameters.
  std::size_t size() const { return pieces_.size(); }

  /// Runs body(piece, gradient) for every piece, on all threads; `gradient` points to the float or
  /// double elements of the piece. The body must not throw.
  template <class Body>
  void for_each(Body&& body) const {
    kernels::parallel_for(pieces_.size(), [&](std::size_t i) {
      const Piece& piece = pieces_[i];
      const Tensor& gradient = gradients_[piece.parameter];
      dispatch(gradient.dtype(),
               [&]<class T>() { body(piece, gradient.values<T>().data() + piece.begin); });
    });
  }

 private:
  template <class T>
  using PoolVector = std::vector<T, kernels::PoolAllocator<T>>;

  PoolVector<Tensor> gradients_;  // one per parameter; absent without a gradient
  PoolVector<Piece> pieces_;
};

/// The elements of `tensor` that correspond to the piece. `tensor` has the shape of the parameter.
template <class T>
T* part(Tensor tensor, const GradientPieces::Piece& piece) {
  return tensor.mutable_values<T>().data() + piece.begin;
}

}  // namespace tapestry
