// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace tapestry {

/// An error that the user can correct. what() reads "place: what was found, what was expected";
/// hint() is one suggested action, without a full stop, or empty.
class UserError : public std::runtime_error {
 public:
  /// One suggested action, without a full stop, or empty.
  const std::string& hint() const noexcept { return hint_; }

 protected:
  /// An error with a message and a hint.
  explicit UserError(const std::string& message, std::string hint = {})
      : std::runtime_error(message), hint_(std::move(hint)) {}

 private:
  std::string hint_;
};

/// Thrown if data cannot be used.
class DataError : public UserError {
 public:
  /// An error with a message and a hint.
  explicit DataError(const std::string& message, std::string hint = {})
      : UserError(message, std::move(hint)) {}
};

/// Thrown if a file or folder cannot be written. Existing content is unchanged unless the message
/// says otherwise.
class OutputError : public UserError {
 public:
  /// An error with a message and a hint.
  explicit OutputError(const std::string& message, std::string hint = {})
      : UserError(message, std::move(hint)) {}
};

/// Thrown if more memory is needed than is available to the process.
class MemoryError : public UserError {
 public:
  /// An error with a message and a hint.
  explicit MemoryError(const std::string& message, std::string hint = {})
      : UserError(message, std::move(hint)) {}
};

/// Throws the DataError "PLACE: found FOUND"; `found` also says what was expected.
[[noreturn]] inline void reject_data(std::string_view place, std::string_view found,
                                     std::string hint) {
  throw DataError(std::string(place).append(": found ").append(found), std::move(hint));
}

}  // namespace tapestry
