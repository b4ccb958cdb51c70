#pragma once

#include "autograd/tensor.h"

namespace tapestry {

struct MatmulOptions {
  bool transpose_a = false;
  bool transpose_b = false;
  double scale = 1.0;
};

/// Matrix product over the last two axes: y = scale * op(a) op(b), where op transposes as the
/// options say.
///
/// a        (..., m, k), or (..., k, m) with transpose_a
/// b        (..., k, n), or (..., n, k) with transpose_b
/// returns  (..., m, n); the leading axes broadcast as in `add`.
/// throws   ShapeError if an operand has fewer than two axes or the extents do not fit,
///          DTypeError if the element types differ.
///
/// For C = s A B: dL/dA = s g B^T and dL/dB = s A^T g, summed over the leading axes along which the
/// operand repeats; a transposed operand gets the transpose of its gradient.
Tensor matmul(const Tensor& a, const Tensor& b, const MatmulOptions& options = {});

}  // namespace tapestry
