#pragma once

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

}  // namespace tapestry
