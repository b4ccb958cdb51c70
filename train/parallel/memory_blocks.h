#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "autograd/tensor.h"
#include "optim/element_range.h"

namespace tapestry {

/// The bytes of some elements of a tensor.
std::span<std::byte> element_bytes(Tensor tensor, const ElementRange& range);

/// The memory of some elements of each tensor, to be sent or received. Tensors whose memory is in
/// one block, with gaps of less than 64 bytes between them (FlatBuffer), are one element of the
/// result, with the gaps: one message instead of one for each tensor. Tensors that are not defined
/// are left out.
///
/// ranges  of each tensor
std::vector<std::span<std::byte>> memory_blocks(std::span<const Tensor> tensors,
                                                std::span<const ElementRange> ranges);

}  // namespace tapestry
