#pragma once

#include <iosfwd>
#include <string>

#include "autograd/tensor.h"

namespace tapestry {

/// The values of a tensor with six significant digits, row by row as in NumPy, then its shape and
/// element type:
///
///     [[  1, 2.5],
///      [ -3, nan]]  (2, 2) float32
///
/// Of a tensor with more than 1,000 values, the first and the last three indices of each longer
/// axis are shown. An empty handle is "(no tensor)".
std::string to_string(const Tensor& tensor);
std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

}  // namespace tapestry
