#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "autograd/kernels/memory.h"
#include "autograd/kernels/parallel.h"
#include "autograd/named_tensor.h"

namespace tapestry {

/// The gradients that parameters have at the moment, cut into pieces that threads work on. Where
/// the cuts are depends on shapes alone, so that results do not depend on the number of threads.
class GradientPieces {
 public:
  struct Piece {
    std::size_t index;      ///< its place among all pieces
    std::size_t parameter;  ///< place of its parameter in the list
    std::size_t begin;      ///< its first element in that parameter
    std::size_t size;       ///< in [1, kernels::elements_per_piece]
  };

  /// Parameters without a gradient have no pieces.
  explicit GradientPieces(std::span<const NamedTensor> parameters);

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

  PoolVector<Tensor> gradients_;  // one for each parameter; none where there is no gradient
  PoolVector<Piece> pieces_;
};

/// The elements of `tensor`, which has the shape of the piece's parameter, that the piece is about.
template <class T>
T* part(Tensor tensor, const GradientPieces::Piece& piece) {
  return tensor.mutable_values<T>().data() + piece.begin;
}

}  // namespace tapestry
