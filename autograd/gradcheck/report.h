#pragma once

#include <optional>
#include <string>

#include "autograd/gradcheck.h"

namespace tapestry::gradcheck_detail {

/// Where a row-major coordinate is: `[2, 0]`; `a direction` for none.
std::string place_of(const Shape& shape, std::optional<std::size_t> coordinate);

/// What is wrong with the gradient of a row in words: not finite, all zero, a wrong sign, a factor
/// (and what factors like it mean), or another direction; then the worst place with both values.
std::string explanation(const GradcheckRow& row);

}  // namespace tapestry::gradcheck_detail
