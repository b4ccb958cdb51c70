#pragma once

#include <stdexcept>
#include <string>

#include "autograd/layer_path.h"

namespace tapestry {

/// Base of the exceptions of this library. Inside a model the message starts with the path of the
/// running layer: `encoder.layers.0.ff.linear1: linear: x has shape ...`.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message) : std::runtime_error(with_layer_path(message)) {}
};

/// Shapes that do not fit an operation or each other.
class ShapeError : public Error {
 public:
  using Error::Error;
};

/// Element types that do not fit an operation or each other.
class DTypeError : public Error {
 public:
  using Error::Error;
};

/// A value outside its range: a rate, an id, an axis.
class ValueError : public Error {
 public:
  using Error::Error;
};

}  // namespace tapestry
