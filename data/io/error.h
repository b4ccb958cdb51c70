#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace tapestry {

/// Data that cannot be used: what() says where, what was found and what was expected; hint() names
/// one action that helps.
class DataError : public std::runtime_error {
 public:
  DataError(const std::string& what, std::string hint)
      : std::runtime_error(what), hint_(std::move(hint)) {}

  const std::string& hint() const noexcept { return hint_; }

 private:
  std::string hint_;
};

}  // namespace tapestry
