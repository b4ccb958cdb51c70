// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/error.h"

#include <mutex>
#include <unordered_set>

namespace tapestry {
namespace {

const std::string no_path;

}  // namespace

const std::string& current_layer_path() {
  const std::string* const path = execution_context().layer_path;
  return path != nullptr ? *path : no_path;
}

std::string with_layer_path(const std::string& message) {
  const std::string& path = current_layer_path();
  return path.empty() ? message : path + ": " + message;
}

const std::string& interned_path(const std::string& path) {
  static std::mutex mutex;
  static auto* const paths = new std::unordered_set<std::string>;
  const std::lock_guard lock(mutex);
  return *paths->insert(path).first;
}

}  // namespace tapestry
