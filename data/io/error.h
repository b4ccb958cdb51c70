#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace tapestry {

/// How the program ends; 128 + n after signal n, once the run has been saved.
enum class ExitCode : int {
  done = 0,
  bug = 1,    ///< our own
  usage = 2,  ///< command line or config
  data = 3,
  checkpoint = 4,
  output = 5,   ///< something could not be written
  numeric = 6,  ///< NaN, infinity, divergence
  in_use = 7,   ///< another process works in the run directory
  memory = 8,
  out_of_time = 124,  ///< train.max_time is up and the run is saved; timeout(1) ends with it too
  check_failed = 1,   ///< gradcheck found a wrong gradient, or check a property that fails
};

inline constexpr int signal_exit_base = 128;

/// An error that the user can act on. what() reads "place: what was found, what was expected";
/// hint() is one action that would help, without a full stop, or empty.
class UserError : public std::runtime_error {
 public:
  UserError(ExitCode code, const std::string& message, std::string hint)
      : std::runtime_error(message), code_(code), hint_(std::move(hint)) {}

  ExitCode exit_code() const noexcept { return code_; }
  const std::string& hint() const noexcept { return hint_; }

 private:
  ExitCode code_;
  std::string hint_;
};

/// A UserError that is caught by its exit code.
template <ExitCode code>
class ErrorWith : public UserError {
 public:
  explicit ErrorWith(const std::string& message, std::string hint = {})
      : UserError(code, message, std::move(hint)) {}
};

/// Data that cannot be used.
using DataError = ErrorWith<ExitCode::data>;

}  // namespace tapestry
