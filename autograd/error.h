// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cmath>
#include <concepts>
#include <limits>
#include <stdexcept>
#include <string>

#include "autograd/execution_context.h"

namespace tapestry {

/// Sets the current layer of this thread, for error messages and tape records, until it goes out of
/// scope: `const LayerPath here(path_);` at the start of a layer's call operator.
///
/// The path must outlive all references to it; use `interned_path`.
class LayerPath {
 public:
  /// Makes `path` the current layer; it must outlive this object.
  explicit LayerPath(const std::string& path) : current_(&path) {}
  /// A temporary string would not outlive the statement.
  explicit LayerPath(std::string&&) = delete;

 private:
  ContextGuard<&ExecutionContext::layer_path> current_;
};

/// The path of the innermost LayerPath of this thread, or the empty string.
const std::string& current_layer_path();

/// "path: message", or only the message outside of layers.
std::string with_layer_path(const std::string& message);

/// A copy of `path` that is valid until the program ends; equal paths share one copy.
const std::string& interned_path(const std::string& path);

/// Base of the exceptions of this library. Within a layer, the message starts with the path of the
/// layer: `encoder.layers.0.ff.linear1: linear: x has shape ...`.
class Error : public std::runtime_error {
 public:
  /// The error `message` in the current layer; what() is with_layer_path(message).
  explicit Error(const std::string& message) : std::runtime_error(with_layer_path(message)) {}
};

/// Thrown when shapes do not match an operation or each other.
class ShapeError : public Error {
 public:
  using Error::Error;  ///< the constructors of Error
};

/// Thrown when element types do not match an operation or each other.
class DTypeError : public Error {
 public:
  using Error::Error;  ///< the constructors of Error
};

/// Thrown for a value outside its range, such as a rate, an id or an axis.
class ValueError : public Error {
 public:
  using Error::Error;  ///< the constructors of Error
};

/// Thrown when an empty Tensor is used where values are expected.
class EmptyTensorError : public ValueError {
 public:
  using ValueError::ValueError;  ///< the constructors of ValueError
};

/// x, or a positive NaN: the sign of a NaN has no meaning, but a negative NaN would be printed as
/// "-nan".
template <std::floating_point T>
T printable(T x) {
  return std::isnan(x) ? std::numeric_limits<T>::quiet_NaN() : x;
}

}  // namespace tapestry
