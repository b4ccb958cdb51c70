#include "autograd/error.h"

#include <mutex>
#include <unordered_set>

namespace tapestry {
namespace {

const std::string no_path;
thread_local const std::string* current = &no_path;

}  // namespace

LayerPath::LayerPath(const std::string& path) : previous_(current) { current = &path; }
LayerPath::~LayerPath() { current = previous_; }

const std::string& current_layer_path() { return *current; }

std::string with_layer_path(const std::string& message) {
  return current->empty() ? message : *current + ": " + message;
}

const std::string& interned_path(const std::string& path) {
  static std::mutex mutex;
  static auto* const paths = new std::unordered_set<std::string>;
  const std::lock_guard lock(mutex);
  return *paths->insert(path).first;
}

}  // namespace tapestry
