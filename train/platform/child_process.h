#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <span>
#include <stdexcept>
#include <vector>

#include "train/platform/file_system.h"

namespace tapestry {

/// The work crashed, or took more than it was given.
class NotContained : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Work in a process of its own, which may crash, hang or want all memory without harm to this one:
/// for libraries that do not survive every file made to harm them. The process sees everything as
/// it is here, but can open no file; nothing that it changes is seen here.
class ChildProcess {
 public:
  /// Hands bytes to receive(), and waits for it where there are many.
  using Send = std::function<void(std::span<const std::byte>)>;
  using Work = std::function<void(const Send& send)>;

  /// What the work may take: seconds of processor time, and ten times that on the clock; bytes of
  /// memory beyond what this process has.
  struct Limits {
    unsigned seconds;
    std::size_t bytes;
  };

  /// Starts the work. throws std::system_error if no process can be started.
  ChildProcess(const Work& work, Limits limits);
  /// Kills the process if it still runs.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  /// Fills `to` with the next bytes that the work sends.
  ///
  /// throws  NotContained, naming what happened, if it ends before it has sent so many;
  ///         std::runtime_error with the message of the exception that ended it, of which the first
  ///         4000 bytes are kept
  void receive(std::span<std::byte> to);

  /// Waits for the end of the work.
  ///
  /// throws  as receive(); NotContained if it sends more than was received
  void finish();

 private:
  struct Running {
    pid_t id;
    FileDescriptor data, outcome;  ///< to read from
  };

  static Running start(const Work& work, Limits limits);
  bool read_more();
  [[noreturn]] void refuse_early_end();
  void require_success();

  Limits limits_;
  Running child_;
  std::vector<std::byte> buffer_;  ///< read from the pipe of data
  std::span<std::byte> rest_;      ///< what receive() has not handed out of it
};

}  // namespace tapestry
