#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "autograd/tensor.h"
#include "layers/network.h"
#include "layers/parameters.h"

namespace tapestry {

/// Creates a network whose parameters belong to a scope, which must outlive it.
using MakeNetwork = std::function<std::unique_ptr<Network>(const Scope&)>;

/// A network with its parameters, gathered into flat buffers for the optimizer. Initial values are
/// keyed by `seed`.
struct Model {
  Model(const MakeNetwork& make_network, DType dtype, std::uint64_t seed);

  /// The network as its class `Kind`. throws std::bad_cast if it has another class.
  template <class Kind>
  const Kind& as() const {
    return dynamic_cast<const Kind&>(*network);
  }

  Parameters parameters;
  std::unique_ptr<Network> network;
};

/// The number of values of a model.
struct ValueCount {
  std::uint64_t parameters = 0;  ///< trainable values
  std::uint64_t constants = 0;   ///< values in fixed tables

  friend bool operator==(const ValueCount&, const ValueCount&) = default;
};

/// Counts the values of a model without allocating them.
ValueCount count_values(const MakeNetwork& make_network);

/// Copies values of equal shape, converted to the element type of `to`.
void copy_values(const Tensor& from, Tensor to);

}  // namespace tapestry
