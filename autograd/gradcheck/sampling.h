#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "autograd/random.h"

namespace tapestry::gradcheck_detail {

/// n random numbers in +-[0.5, 1.5]: of either sign, uneven, none near zero.
std::vector<double> signed_weights(std::size_t n, const RandomStream& random);

/// The coordinates of a tensor to move one at a time, in ascending order: all of them if there are
/// at most `most`. Otherwise `most` of them: a quarter with the largest gradients, a quarter with a
/// gradient of exactly zero if there are that many, and the rest random.
///
/// gradients  each empty (all zero) or with one value for each of the `size` coordinates
std::vector<std::size_t> coordinates_to_check(std::size_t size, std::size_t most,
                                              std::span<const std::span<const double>> gradients,
                                              const RandomStream& random);

}  // namespace tapestry::gradcheck_detail
