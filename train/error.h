#pragma once

#include <string>
#include <utility>

#include "data/io/error.h"

namespace tapestry {

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
