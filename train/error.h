#pragma once

#include <string>
#include <utility>

#include "data/io/error.h"

namespace tapestry {

/// The command line does not say what to do.
class UsageError : public ErrorWith<ExitCode::usage> {
 public:
  UsageError(const std::string& message, std::string hint)
      : ErrorWith("command line: " + message, std::move(hint)) {}
};

/// A file could not be opened or read.
class InputError : public DataError {
 public:
  using DataError::DataError;
};

/// A checkpoint cannot be used: it cannot be opened, it was written by a newer version, or it does
/// not hold what was asked of it.
using CheckpointError = ErrorWith<ExitCode::checkpoint>;

/// The bytes of a checkpoint are not what was written: truncated, altered, or never a checkpoint.
/// An older checkpoint of the same run may still be whole.
class DamagedCheckpoint : public CheckpointError {
 public:
  using CheckpointError::CheckpointError;
};

/// A file or folder could not be written. What was there before is unchanged unless the message
/// says otherwise.
using OutputError = ErrorWith<ExitCode::output>;

/// Another process is working in the run directory.
using RunDirectoryInUse = ErrorWith<ExitCode::in_use>;

/// The process cannot have the memory that is needed.
using MemoryError = ErrorWith<ExitCode::memory>;

/// A loss or a gradient is NaN or infinite. The weights are those of the step before.
using NumericError = ErrorWith<ExitCode::numeric>;

}  // namespace tapestry
