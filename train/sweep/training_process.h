#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace tapestry {

/// This program in another process, with other arguments, its standard error in a file and no other
/// input or output. A terminal does not send signals to it. If this process ends, the other one
/// gets SIGTERM.
class TrainingProcess {
 public:
  /// Starts the process. If SIGCHLD is ignored, it gets its default action, without which there are
  /// no exit codes.
  ///
  /// error_file  is created or replaced
  /// throws      std::system_error if the process cannot be started or the file cannot be written
  TrainingProcess(const std::vector<std::string>& arguments,
                  const std::filesystem::path& error_file);
  TrainingProcess(TrainingProcess&& other) noexcept;
  TrainingProcess& operator=(TrainingProcess&&) = delete;
  /// Kills the process if it has not ended.
  ~TrainingProcess();

  /// Requests that the run is saved and ends.
  void stop();

  /// Waits until the process has ended.
  void wait() noexcept;

  /// The exit code if the process has ended, 128 + n after signal n; nullopt if it has not. Not to
  /// be called again afterwards.
  ///
  /// throws  std::system_error if the exit code is lost
  std::optional<int> poll();

 private:
  pid_t id_;  ///< 0: has ended
};

}  // namespace tapestry
