#include "autograd/error.h"

#include "autograd/layer_path.h"

namespace tapestry {
namespace {

std::string with_layer_path(const std::string& message) {
  const std::string& path = current_layer_path();
  return path.empty() ? message : path + ": " + message;
}

}  // namespace

Error::Error(const std::string& message) : std::runtime_error(with_layer_path(message)) {}

}  // namespace tapestry
