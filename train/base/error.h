#pragma once

#include <string>
#include <utility>

#include "data/io/error.h"

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

/// A UserError with an exit code.
class ProgramError : public UserError {
 public:
  /// An error with the exit code of the program, a message and a hint.
  ProgramError(ExitCode code, const std::string& message, std::string hint)
      : UserError(message, std::move(hint)), code_(code) {}

  /// The exit code of the program.
  ExitCode exit_code() const noexcept { return code_; }

 private:
  ExitCode code_;
};

/// The exit code of the program for an error: `output` of an OutputError, `data` of a
/// DataError.
inline ExitCode exit_code(const UserError& error) {
  if (const auto* own = dynamic_cast<const ProgramError*>(&error)) return own->exit_code();
  return dynamic_cast<const OutputError*>(&error) != nullptr ? ExitCode::output : ExitCode::data;
}

/// A ProgramError with a fixed exit code, so that it can be caught by type.
template <ExitCode code>
class ErrorWith : public ProgramError {
 public:
  /// An error with a message and a hint.
  explicit ErrorWith(const std::string& message, std::string hint = {})
      : ProgramError(code, message, std::move(hint)) {}
};

/// The command line is invalid.
class UsageError : public ErrorWith<ExitCode::usage> {
 public:
  /// The error "command line: MESSAGE" with a hint.
  UsageError(const std::string& message, std::string hint)
      : ErrorWith("command line: " + message, std::move(hint)) {}
};

/// A checkpoint cannot be used: it cannot be opened, was written by a newer version, or lacks a
/// required value.
using CheckpointError = ErrorWith<ExitCode::checkpoint>;

/// This checkpoint file cannot be used: it is damaged, cannot be opened or is no regular file. An
/// older checkpoint of the same run may still be usable.
class UnusableCheckpoint : public CheckpointError {
 public:
  using CheckpointError::CheckpointError;
};

/// The bytes of a checkpoint are not what was written: truncated, altered, or not a checkpoint at
/// all.
class DamagedCheckpoint : public UnusableCheckpoint {
 public:
  using UnusableCheckpoint::UnusableCheckpoint;
};

/// Another process is using the run directory.
using RunDirectoryInUse = ErrorWith<ExitCode::in_use>;

/// Not enough memory is available to the process.
using MemoryError = ErrorWith<ExitCode::memory>;

/// A loss or a gradient is NaN or infinite. The parameters are those before the step.
using NumericError = ErrorWith<ExitCode::numeric>;

/// A custom model or task is wrong: its registration, an exception that its code has thrown, or a
/// result of another shape than expected. The message names the kind and the function.
class CustomModelError : public ErrorWith<ExitCode::bug> {
 public:
  using ErrorWith::ErrorWith;
};

}  // namespace tapestry
