#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/tensor.h"

namespace tapestry {

/// A tensor and its name, such as a parameter `encoder.layers.0.self_attn.q_proj.weight`.
struct NamedTensor {
  std::string name;  ///< path of a layer and name in it, joined by dots
  Tensor tensor;     ///< a handle of the tensor
};

/// The indices of the tensors that are named `path` or have a name below it: `encoder.norm.weight`
/// is below `encoder`, and not below `enc`. The path may end with a dot; all names are below the
/// empty path.
///
/// throws  ValueError, with `operation` and the closest names that exist, if there is no such name.
std::vector<std::size_t> indices_below(const char* operation, std::string_view path,
                                       std::span<const NamedTensor> tensors);

}  // namespace tapestry
