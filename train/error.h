#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace tapestry {

/// An error the user can act on. `what()` reads "place: what was found, what was expected";
/// `hint()` is one action that would help, without a full stop, or empty.
class ProgramError : public std::runtime_error {
 public:
  explicit ProgramError(const std::string& message, std::string hint = {})
      : std::runtime_error(message), hint_(std::move(hint)) {}

  const std::string& hint() const noexcept { return hint_; }

 private:
  std::string hint_;
};

/// The command line does not say what to do.
class UsageError : public ProgramError {
 public:
  using ProgramError::ProgramError;
};

/// A file could not be opened or read.
class InputError : public ProgramError {
 public:
  using ProgramError::ProgramError;
};

/// A checkpoint cannot be used: it cannot be opened, it was written by a newer version, or it does
/// not hold what was asked of it.
class CheckpointError : public ProgramError {
 public:
  using ProgramError::ProgramError;
};

/// The bytes of a checkpoint are not what was written: truncated, altered, or never a checkpoint.
/// An older checkpoint of the same run may still be whole.
class DamagedCheckpoint : public CheckpointError {
 public:
  using CheckpointError::CheckpointError;
};

/// A file or folder could not be written. What was there before is unchanged unless the message
/// says otherwise.
class OutputError : public ProgramError {
 public:
  using ProgramError::ProgramError;
};

/// Another process is working in the run directory.
class RunDirectoryInUse : public ProgramError {
 public:
  using ProgramError::ProgramError;
};

/// The process cannot have the memory that is needed.
class MemoryError : public ProgramError {
 public:
  using ProgramError::ProgramError;
};

/// A loss or a gradient is NaN or infinite. The weights are those of the step before.
class NumericError : public ProgramError {
 public:
  using ProgramError::ProgramError;
};

}  // namespace tapestry
