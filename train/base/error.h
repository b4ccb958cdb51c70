// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "data/io/error.h"

namespace tapestry {

/// Exit codes of the program.
enum class ExitCode : int {
  done = 0,           ///< success
  failure = 1,        ///< internal error, or a failed check
  usage = 2,          ///< ConfigError, UsageError
  data = 3,           ///< DataError
  checkpoint = 4,     ///< CheckpointError
  output = 5,         ///< OutputError
  numeric = 6,        ///< NumericError
  in_use = 7,         ///< RunDirectoryInUse
  memory = 8,         ///< MemoryError, std::bad_alloc
  peer_failed = 9,    ///< PeerFailure
  out_of_time = 124,  ///< stopped by train.max_time; equals the exit code of timeout(1)
};

/// The exit code after signal n is signal_exit_base + n.
inline constexpr int signal_exit_base = 128;

/// The meaning of an exit code, for users.
struct ExitCodeMeaning {
  ExitCode code;             ///< the exit code
  std::string_view meaning;  ///< its line in `--help`
};

/// The descriptions of all exit codes.
inline constexpr std::array exit_code_meanings{
    ExitCodeMeaning{ExitCode::done, "done"},
    ExitCodeMeaning{ExitCode::failure,
                    "an internal error, an error in a custom model, a wrong gradient, a failed "
                    "check, or a difference that `diff` or `replay` has found"},
    ExitCodeMeaning{ExitCode::usage, "invalid command line or config"},
    ExitCodeMeaning{ExitCode::data, "invalid data"},
    ExitCodeMeaning{ExitCode::checkpoint, "a checkpoint cannot be used"},
    ExitCodeMeaning{ExitCode::output,
                    "output could not be written; if the reader of a pipe exits, commands other "
                    "than train end with SIGPIPE (141 in a shell)"},
    ExitCodeMeaning{ExitCode::numeric, "NaN, infinity or divergence"},
    ExitCodeMeaning{ExitCode::in_use, "another process uses the run directory"},
    ExitCodeMeaning{ExitCode::memory, "not enough memory"},
    ExitCodeMeaning{ExitCode::peer_failed, "another process of a parallel run failed"},
    ExitCodeMeaning{ExitCode::out_of_time, "stopped by `train.max_time`, after saving"},
};

/// A UserError with an exit code.
class ProgramError : public UserError {
 public:
  /// An error with the exit code `code`, a message and a hint.
  ProgramError(ExitCode code, const std::string& message, std::string hint)
      : UserError(message, std::move(hint)), code_(code) {}

  /// The exit code of the program.
  ExitCode exit_code() const noexcept { return code_; }

 private:
  ExitCode code_;
};

/// The exit code of the program after an error: the code of a ProgramError, `output` for an
/// OutputError, `memory` for a MemoryError, `data` for a DataError.
inline ExitCode exit_code(const UserError& error) {
  if (const auto* own = dynamic_cast<const ProgramError*>(&error)) return own->exit_code();
  if (dynamic_cast<const MemoryError*>(&error) != nullptr) return ExitCode::memory;
  return dynamic_cast<const OutputError*>(&error) != nullptr ? ExitCode::output : ExitCode::data;
}

/// A ProgramError whose type determines its exit code, so that code can catch it by type.
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

/// A checkpoint file cannot be used: it is damaged, cannot be opened or is not a regular file. An
/// older checkpoint of the same run may still be usable.
class UnusableCheckpoint : public CheckpointError {
 public:
  using CheckpointError::CheckpointError;
};

/// The file is not a checkpoint, or was truncated or altered after it was written.
class DamagedCheckpoint : public UnusableCheckpoint {
 public:
  using UnusableCheckpoint::UnusableCheckpoint;
};

/// Another process is using the run directory.
using RunDirectoryInUse = ErrorWith<ExitCode::in_use>;

/// A loss or a gradient is NaN or infinite. The step did not change the parameters.
using NumericError = ErrorWith<ExitCode::numeric>;

/// Error in a custom model or task: an invalid registration, an exception thrown by its code, or a
/// result with an unexpected shape. The message names the kind and the function.
class CustomModelError : public ErrorWith<ExitCode::failure> {
 public:
  using ErrorWith::ErrorWith;
};

}  // namespace tapestry
