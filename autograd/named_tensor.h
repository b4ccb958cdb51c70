#pragma once

#include <string>

#include "autograd/tensor.h"

namespace tapestry {

/// A tensor and what to call it, such as a parameter `encoder.layers.0.self_attn.q_proj.weight`.
struct NamedTensor {
  std::string name;
  Tensor tensor;
};

}  // namespace tapestry
