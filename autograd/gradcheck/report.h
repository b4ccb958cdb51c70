#pragma once

#include <optional>
#include <string>

#include "autograd/gradcheck/gradcheck.h"

namespace tapestry::gradcheck_detail {

/// The indices of a row-major coordinate, such as `[2, 0]`; `a direction` without one, nothing for
/// a tensor without elements.
std::string format_place(const Shape& shape, std::optional<std::size_t> coordinate);

/// What is wrong with the gradient of a row in words: not finite, all zero, a wrong sign, a factor
/// (and what factors like it mean), or another direction; then the worst place with both values.
std::string explanation(const GradcheckRow& row);

}  // namespace tapestry::gradcheck_detail
