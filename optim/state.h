#pragma once

#include <span>
#include <string>
#include <vector>

#include "autograd/named_tensor.h"

namespace tapestry {

/// What an optimiser remembers of every parameter, such as `first_moment`: for each a tensor
/// `<what>/<parameter name>` of its shape and element type, zeros at first. All lie in one slab,
/// each from a 64-byte boundary on.
std::vector<NamedTensor> zero_state(const std::string& what,
                                    std::span<const NamedTensor> parameters);

}  // namespace tapestry
