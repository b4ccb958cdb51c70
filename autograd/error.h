#pragma once

#include <stdexcept>
#include <string>

namespace tapestry {

/// Names the running layer of this thread, for error messages and for the records of a tape, until
/// it goes out of scope: `const LayerPath here(path_);` at the top of a layer's call operator.
///
/// The text must live as long as anything refers to it; use `interned_path`.
class LayerPath {
 public:
  explicit LayerPath(const std::string& path);
  explicit LayerPath(std::string&&) = delete;  // would not outlive the statement
  ~LayerPath();
  LayerPath(const LayerPath&) = delete;
  LayerPath& operator=(const LayerPath&) = delete;

 private:
  const std::string* previous_;
};

/// The path of the innermost LayerPath alive on this thread, or the empty string.
const std::string& current_layer_path();

/// "path: message", or the message alone outside of layers.
std::string with_layer_path(const std::string& message);

/// One copy of `path` that lives as long as the program.
const std::string& interned_path(const std::string& path);

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
