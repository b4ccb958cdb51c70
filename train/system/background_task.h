// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <thread>

namespace tapestry {

/// Runs one task at a time on a separate thread. All functions must be called from the same thread.
class BackgroundTask {
 public:
  using Clock = std::chrono::steady_clock;

  /// Starts a task on a new thread, which blocks all signals and ends with the task. If no thread
  /// can be created, runs the task on the calling thread like run_here(). Call finish() before
  /// starting the next task.
  ///
  /// returns  whether the task runs on a separate thread
  bool start(std::function<void()> task);

  /// Runs the task on the calling thread. If the task throws an exception, finish() rethrows it.
  void run_here(std::function<void()> task);

  /// Whether no task is running, so that finish() returns immediately.
  bool has_ended() const { return has_ended_.load(std::memory_order_acquire); }

  /// Waits for the current task, if any, and rethrows its exception.
  void finish();

  /// The duration of the last task, or of the current task so far; 0 before the first task.
  Clock::duration time() const { return has_ended() ? time_ : Clock::now() - started_; }

 private:
  void begin(std::function<void()> task);
  void run();

  std::function<void()> task_;  ///< destroyed with its captures after it has run
  std::exception_ptr error_;
  Clock::time_point started_{};
  Clock::duration time_{0};
  std::atomic<bool> has_ended_{true};
  std::jthread thread_;  ///< declared last: joins before the other members are destroyed
};

}  // namespace tapestry
