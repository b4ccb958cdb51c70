// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "autograd/random.h"

namespace tapestry::gradcheck_detail {

/// The coordinates of a tensor to move one at a time, in ascending order: all if there are at most
/// `max_count`. Otherwise `max_count` of them: a quarter with the largest gradients, a quarter with
/// a gradient of exactly zero if there are that many, and the rest random.
///
/// gradients  each empty (all zero) or with one value for each of the `size` coordinates
std::vector<std::size_t> coordinates_to_check(std::size_t size, std::size_t max_count,
                                              std::span<const std::span<const double>> gradients,
                                              const RandomStream& random);

}  // namespace tapestry::gradcheck_detail
