// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "autograd/tensor.h"

namespace tapestry {

/// Concatenates the vectors of all sequences, without padding.
///
/// x        (batch, n, d); in sequence b, positions from lengths[b] on are padding
/// lengths  (batch), >= 0; they need not outlive the call
/// returns  (the sum of lengths, each at most n, d)
/// throws   ShapeError if x does not have three axes or lengths does not have batch elements,
///          ValueError if a length is negative.
///
/// dL/dx = dL/dy at the positions of sequences and 0 in padding.
Tensor pack_padded(const Tensor& x, std::span<const std::int32_t> lengths);

/// The inverse of `pack_padded`: padding is 0.
///
/// y        (the sum of lengths, each at most n, d)
/// lengths  (batch), >= 0; they need not outlive the call
/// n        number of positions of every sequence, including padding
/// returns  (batch, n, d)
/// throws   ShapeError if y does not have two axes or the number of vectors is not the sum of
///          lengths, ValueError if a length is negative.
///
/// dL/dy = dL/dx without padding.
Tensor pad_packed(const Tensor& y, std::span<const std::int32_t> lengths, std::size_t n);

}  // namespace tapestry
