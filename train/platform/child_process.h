#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <span>
#include <stdexcept>
#include <vector>

#include "data/io/file_system.h"

namespace tapestry {

/// The work crashed or exceeded its limits.
class NotContained : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Runs work in a separate process, so that a crash, an endless loop or excessive memory use does
/// not affect this process: for libraries that crash on malicious files. The child has a copy of
/// this process's memory but cannot open files; its changes are not visible here.
class ChildProcess {
 public:
  /// Sends bytes to receive(); blocks while the pipe is full.
  using Send = std::function<void(std::span<const std::byte>)>;
  using Work = std::function<void(const Send& send)>;

  /// Limits of the work: seconds of processor time, and ten times as many of elapsed time; bytes of
  /// memory in addition to the memory of this process.
  struct Limits {
    unsigned seconds;
    std::size_t bytes;
  };

  /// Starts the work. throws std::system_error if no process can be started.
  ChildProcess(const Work& work, Limits limits);
  /// Kills the process if it is still running.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  /// Fills `to` with the next bytes that the work sends.
  ///
  /// throws  NotContained, with the reason, if the work crashes or exceeds a limit before it has
  ///         sent enough bytes; std::runtime_error with the message of the exception that ended the
  ///         work, truncated to 4000 bytes
  void receive(std::span<std::byte> to);

  /// Waits until the work has ended.
  ///
  /// throws  as receive(); NotContained if the work sends more than was received
  void finish();

 private:
  struct Running {
    pid_t id;
    FileDescriptor data, outcome;  ///< reading ends of the pipes
  };

  static Running start(const Work& work, Limits limits);
  bool read_more();
  [[noreturn]] void refuse_early_end();
  void require_success();

  Limits limits_;
  std::vector<std::byte> buffer_;  ///< read from the pipe of data; allocated before the fork
  Running child_;
  std::span<std::byte> rest_;  ///< part of the buffer that receive() has not returned yet
};

}  // namespace tapestry
