// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "autograd/kernels/memory.h"
#include "autograd/kernels/parallel.h"
#include "autograd/named_tensor.h"
#include "optim/optimizer.h"

namespace tapestry {

/// The gradients of all parameters that have a gradient, divided into pieces for the threads. The
/// division depends only on shapes, so that results do not depend on the number of threads.
class GradientPieces {
 public:
  /// A part of the gradient of one parameter.
  struct Piece {
    std::size_t index;      ///< index among all pieces
    std::size_t parameter;  ///< index of the parameter in the list
    std::size_t begin;      ///< index of the first element in the parameter
    std::size_t in_state;   ///< index of the first element in the parameter's optimizer state
    std::size_t size;       ///< number of elements, in [1, kernels::elements_per_piece]
  };

  /// Parameters without a gradient have no pieces.
  ///
  /// ranges  elements to divide, one range for each parameter; if empty, all elements
  explicit GradientPieces(std::span<const NamedTensor> parameters,
                          std::span<const ElementRange> ranges = {}) {
    gradients_.reserve(parameters.size());
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      const Tensor& gradient = gradients_.emplace_back(parameters[p].tensor.grad());
      if (!gradient.defined()) continue;
      const ElementRange range = ranges.empty() ? ElementRange{0, gradient.size()} : ranges[p];
      for (std::size_t i = 0; i < range.size(); i += kernels::elements_per_piece) {
        pieces_.push_back({.index = pieces_.size(),
                           .parameter = p,
                           .begin = range.begin + i,
                           .in_state = i,
                           .size = std::min(kernels::elements_per_piece, range.size() - i)});
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

  PoolVector<Tensor> gradients_;  // one per parameter; empty if the parameter has no gradient
  PoolVector<Piece> pieces_;
};

/// The elements of a parameter that correspond to the piece.
template <class T>
T* part(Tensor parameter, const GradientPieces::Piece& piece) {
  return parameter.mutable_values<T>().data() + piece.begin;
}

/// The elements of the optimizer state of a parameter that correspond to the piece.
template <class T>
T* state_part(Tensor state, const GradientPieces::Piece& piece) {
  return state.mutable_values<T>().data() + piece.in_state;
}

}  // namespace tapestry
