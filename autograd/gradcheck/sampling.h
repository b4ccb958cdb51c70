#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "autograd/random.h"

namespace tapestry::gradcheck_detail {

/// n random numbers in +-[0.5, 1.5]: of either sign, uneven, none near zero.
std::vector<double> signed_weights(std::size_t n, const RandomStream& random);

/// Which coordinates of a tensor to move alone, without repeats and in rising order: all of them if
/// they are at most `most`. Otherwise `most`: a quarter of them with the largest magnitudes of the
/// gradients, a quarter at which a gradient is exactly zero, as far as there are any, the rest
/// random.
///
/// gradients  each empty (all zero) or with one value for each of the `size` coordinates
std::vector<std::size_t> coordinates_to_check(std::size_t size, std::size_t most,
                                              std::span<const std::span<const double>> gradients,
                                              const RandomStream& random);

}  // namespace tapestry::gradcheck_detail
