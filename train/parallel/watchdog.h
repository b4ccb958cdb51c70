#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>

#include "train/parallel/transport.h"

namespace tapestry {

/// Detects that another process hangs, has ended early, or cannot be reached. On its own thread,
/// every process sends heartbeats to rank 0, and rank 0 sends heartbeats to all others.
class Watchdog {
 public:
  /// A process from which no heartbeat has come for `limit`, because it hangs or has ended.
  struct Timeout {
    std::size_t rank = 0;
    std::uint64_t step = 0;  ///< the last step that it had done
    bool has_ended = false;  ///< whether it has said that it ends
  };
  /// Called on the thread of the watchdog, once. It is to end all processes.
  using Alarm = std::function<void(const Timeout& timeout)>;

  /// Begins to watch. All processes have a watchdog with the same limit. While a process itself was
  /// stopped, such as by SIGSTOP, the time does not count.
  ///
  /// step  the last step that this process has done; must outlive the watchdog, as `transport`
  Watchdog(Transport& transport, std::chrono::milliseconds limit,
           const std::atomic<std::uint64_t>& step, Alarm alarm);
  /// Informs the other processes that no further heartbeat follows, and waits for the same message
  /// from them, or for their timeout.
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  void watch();

  Transport& transport_;
  std::chrono::milliseconds limit_;
  const std::atomic<std::uint64_t>& step_;
  Alarm alarm_;
  std::atomic<bool> ends_ = false;
  std::thread thread_;
};

/// The limit of TAPESTRY_PEER_TIMEOUT, in seconds; 60 s if the variable is not set.
///
/// text    its value, or null
/// throws  UsageError unless it is a whole number from 1 to 86400.
std::chrono::seconds read_peer_timeout(const char* text);

}  // namespace tapestry
