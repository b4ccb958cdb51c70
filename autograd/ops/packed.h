#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "autograd/tensor.h"

namespace tapestry {

/// The vectors of all sentences one after the other, without padding.
///
/// x        (batch, n, d); in sentence b, positions from lengths[b] on are padding
/// lengths  (batch), >= 0; they need not outlive the call
/// returns  (the sum of lengths, each at most n, d)
/// throws   ShapeError if x has not three axes or there are not as many lengths as sentences,
///          ValueError if a length is negative.
///
/// dL/dx = dL/dy in the places that y was taken from and 0 in padding.
Tensor pack_padded(const Tensor& x, std::span<const std::int32_t> lengths);

/// The inverse: padding is 0.
///
/// y        (the sum of lengths, each at most n, d)
/// n        positions of every sentence, padding included
/// returns  (batch, n, d)
/// throws   ShapeError if y has not two axes or another number of vectors, ValueError if a
///          length is negative.
///
/// dL/dy = dL/dx without padding.
Tensor pad_packed(const Tensor& y, std::span<const std::int32_t> lengths, std::size_t n);

}  // namespace tapestry
