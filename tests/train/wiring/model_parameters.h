#pragma once

#include <string>
#include <vector>

#include "autograd/shape.h"
#include "tests/train/wiring/model_kinds.h"

namespace tapestry::test {

/// How a tensor starts: filled with one value; uniform in +-scale; or normal with mean 0 and the
/// deviation scale.
struct InitialValues {
  enum class Kind { constant, uniform, normal } kind;
  double scale;  ///< or the constant

  bool operator==(const InitialValues&) const = default;
};

struct ExpectedTensor {
  std::string name;
  Shape shape;
  InitialValues initial;

  bool operator==(const ExpectedTensor&) const = default;
};

struct ExpectedTensors {
  std::vector<ExpectedTensor> parameters, buffers;
};

/// The parameters and buffers of a model as the documentation of its options and layers says, in no
/// particular order.
ExpectedTensors expected_tensors(const KindOptions& options, const NetworkSizes& sizes);

}  // namespace tapestry::test
