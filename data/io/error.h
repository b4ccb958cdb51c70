#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace tapestry {

/// Exit codes of the program; 128 + n after signal n, once the run has been saved.
enum class ExitCode : int {
  done = 0,           ///< success
  bug = 1,            ///< an error in the program
  usage = 2,          ///< invalid command line or config
  data = 3,           ///< data that cannot be used
  checkpoint = 4,     ///< a checkpoint that cannot be used
  output = 5,         ///< output could not be written
  numeric = 6,        ///< NaN, infinity or divergence
  in_use = 7,         ///< the run directory is used by another process
  memory = 8,         ///< not enough memory
  peer_failed = 9,    ///< another process of a parallel run has failed
  out_of_time = 124,  ///< train.max_time is over and the run is saved; as timeout(1)
  check_failed = 1,   ///< gradcheck or check has found an error
};

/// The exit code after signal n is signal_exit_base + n.
inline constexpr int signal_exit_base = 128;

/// An error that the user can correct. what() reads "place: what was found, what was expected";
/// hint() is one suggested action, without a full stop, or empty.
class UserError : public std::runtime_error {
 public:
  /// An error with the exit code of the program, a message and a hint.
  UserError(ExitCode code, const std::string& message, std::string hint)
      : std::runtime_error(message), code_(code), hint_(std::move(hint)) {}

  /// The exit code with which the program ends.
  ExitCode exit_code() const noexcept { return code_; }
  /// One suggested action, without a full stop, or empty.
  const std::string& hint() const noexcept { return hint_; }

 private:
  ExitCode code_;
  std::string hint_;
};

/// A UserError with a fixed exit code, so that it can be caught by type.
template <ExitCode code>
class ErrorWith : public UserError {
 public:
  /// An error with a message and a hint.
  explicit ErrorWith(const std::string& message, std::string hint = {})
      : UserError(code, message, std::move(hint)) {}
};

/// Data that cannot be used.
using DataError = ErrorWith<ExitCode::data>;

/// A file or folder could not be written. Existing content is unchanged unless the message says
/// otherwise.
using OutputError = ErrorWith<ExitCode::output>;

/// Throws the DataError "PLACE: found FOUND"; `found` also says what was expected.
[[noreturn]] inline void refuse_data(std::string_view place, std::string_view found,
                                     std::string hint) {
  throw DataError(std::string(place).append(": found ").append(found), std::move(hint));
}

}  // namespace tapestry
