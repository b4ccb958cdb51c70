// SPDX-License-Identifier: BSD-3-Clause
#include "train/system/background_task.h"

#include <new>
#include <system_error>
#include <utility>

#include "train/system/blocked_signals.h"

namespace tapestry {

bool BackgroundTask::start(std::function<void()> task) {
  begin(std::move(task));
  try {
    const BlockedSignals blocked;
    thread_ = std::jthread([this] { run(); });
    return true;
  } catch (const std::system_error&) {
  } catch (const std::bad_alloc&) {
  }
  run();
  return false;
}

void BackgroundTask::run_here(std::function<void()> task) {
  begin(std::move(task));
  run();
}

void BackgroundTask::finish() {
  if (thread_.joinable()) thread_.join();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void BackgroundTask::begin(std::function<void()> task) {
  task_ = std::move(task);
  started_ = Clock::now();
  has_ended_ = false;
}

void BackgroundTask::run() {
  try {
    task_();
  } catch (...) {
    error_ = std::current_exception();
  }
  task_ = nullptr;
  time_ = Clock::now() - started_;
  has_ended_.store(true, std::memory_order_release);
}

}  // namespace tapestry
