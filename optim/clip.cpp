#include "optim/clip.h"

#include <fmt/format.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "autograd/error.h"
#include "autograd/kernels/reduce.h"
#include "optim/gradient_pieces.h"

namespace tapestry {

double global_gradient_norm(std::span<const NamedTensor> parameters) {
  const GradientPieces gradients(parameters);
  std::vector<double, kernels::PoolAllocator<double>> squares(gradients.size());
  gradients.for_each([&]<class T>(const GradientPieces::Piece& piece, const T* gradient) {
    squares[piece.index] = kernels::sum_of_squares(piece.size, gradient);
  });
  return std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0));
}

double clip_factor(double norm, double max_norm) {
  if (!(max_norm >= 0.0 && std::isfinite(max_norm))) {
    throw ValueError(
        fmt::format("clip_factor: max_norm is {}, expected a finite number >= 0", max_norm));
  }
  return max_norm == 0.0 || norm <= max_norm ? 1.0 : max_norm / norm;
}

}  // namespace tapestry
