// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <exception>
#include <functional>
#include <thread>

namespace tapestry {

/// Runs one task at a time on another thread, so that the caller does not wait for it. The
/// functions are called by one thread.
class BackgroundTask {
 public:
  using Clock = std::chrono::steady_clock;

  /// Begins a task on a new thread, which has all signals blocked and ends with the task. If the
  /// system gives no thread, the task is done before the function returns, as by do_here(). An
  /// earlier task must have been finished.
  ///
  /// returns  whether the task runs on another thread
  bool start(std::function<void()> task);

  /// Does the task before it returns; finish() throws what the task throws.
  void do_here(std::function<void()> task);

  /// Whether finish() would not wait.
  bool has_ended() const { return has_ended_.load(std::memory_order_acquire); }

  /// Waits for the end of the task, if there is one. throws what the task threw.
  void finish();

  /// The duration of the last task, or of the current one so far; 0 before the first.
  Clock::duration time() const { return has_ended() ? time_ : Clock::now() - started_; }

 private:
  void begin(std::function<void()> task);
  void run();

  std::function<void()> task_;  ///< destroyed, with what it holds, when it has ended
  std::exception_ptr error_;
  Clock::time_point started_{};
  Clock::duration time_{0};
  std::atomic<bool> has_ended_{true};
  std::jthread thread_;  ///< the last member: ends before the others
};

/// Blocks all signals of the calling thread during its lifetime. A thread that starts during this
/// keeps them blocked: the system then delivers a signal to another thread.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  /// The signals that were blocked before.
  const sigset_t& before() const { return before_; }

 private:
  sigset_t before_{};
};

}  // namespace tapestry
