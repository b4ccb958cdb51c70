#pragma once

#include <stdexcept>
#include <string>

namespace tapestry {

/// What this library throws. Inside a model the text starts with the path of the layer at work:
/// `encoder.layers.0.ff.linear1: linear: x has shape ...`.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message);
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
