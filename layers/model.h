#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "autograd/tensor.h"
#include "layers/network.h"
#include "layers/parameters.h"

namespace tapestry {

/// Makes a network whose parameters are made in a scope, which must outlive it.
using MakeNetwork = std::function<std::unique_ptr<Network>(const Scope&)>;

/// A network together with its parameters, gathered for the optimiser. Initial values are keyed by
/// `seed`.
struct Model {
  Model(const MakeNetwork& make_network, DType dtype, std::uint64_t seed);

  /// The network as the class that it is. throws std::bad_cast if it is another.
  template <class Kind>
  const Kind& as() const {
    return dynamic_cast<const Kind&>(*network);
  }

  Parameters parameters;
  std::unique_ptr<Network> network;
};

/// Values of a model.
struct ValueCount {
  std::uint64_t parameters = 0;  ///< trainable ones
  std::uint64_t constants = 0;   ///< in fixed tables

  friend bool operator==(const ValueCount&, const ValueCount&) = default;
};

/// The values that a model would have, without making it.
ValueCount count_values(const MakeNetwork& make_network);

/// Copies values of equal shape, converted to the element type of `to`.
void copy_values(const Tensor& from, Tensor to);

}  // namespace tapestry
