// SPDX-License-Identifier: BSD-3-Clause
#include "train/loop/batch_loader.h"

#include <chrono>
#include <ctime>
#include <exception>
#include <new>
#include <system_error>
#include <utility>

#include "autograd/kernels/parallel.h"
#include "train/system/blocked_signals.h"
#include "train/tasks/task.h"
#include "train/tasks/task_data.h"

namespace tapestry {
namespace {

/// CPU time of the calling thread.
std::chrono::nanoseconds time_of_thread() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace

BatchLoader::BatchLoader(const Corpus& corpus, const Config& config,
                         std::chrono::nanoseconds prefetch_from)
    : corpus_(corpus),
      rules_(training_rules(config, corpus)),
      batches_per_step_(config.train.accumulate),
      prefetch_from_(prefetch_from),
      schedule_(make_batch_schedule(corpus, config)) {}

BatchLoader::~BatchLoader() = default;

StepBatches BatchLoader::take(BatchPosition position, bool should_prefetch) {
  std::optional<StepBatches> step = take_prepared(position);
  if (!step) step = prepare(position, kernels::throw_if_cancelled);
  if (should_prefetch && is_worth_prefetching()) prefetch(step->next);
  return *std::move(step);
}

bool BatchLoader::is_ready() {
  const std::lock_guard lock(mutex_);
  return prepared_.has_value();
}

BatchStatistics BatchLoader::measure(std::uint64_t epoch) {
  const std::unique_lock lock = wait_for_thread();
  return schedule_.measure(epoch, corpus_.training(), rules_.layout);
}

/// throw_if_ended  throws Cancelled if the batches are no longer needed
StepBatches BatchLoader::prepare(BatchPosition position,
                                 const std::function<void()>& throw_if_ended) {
  const std::chrono::nanoseconds begin = time_of_thread();
  StepBatches step{.batches = {}, .next = position};
  for (std::size_t i = 0; i < batches_per_step_; ++i) {
    throw_if_ended();
    BatchRules rules = rules_;
    rules.epoch = step.next.epoch;
    step.batches.push_back(make_batch(corpus_.training(), schedule_.at(step.next), rules));
    step.next = schedule_.after(step.next);
  }
  const std::lock_guard lock(mutex_);
  last_time_ = time_of_thread() - begin;
  return step;
}

bool BatchLoader::is_worth_prefetching() {
  const std::lock_guard lock(mutex_);
  return last_time_ >= prefetch_from_;
}

/// Cancels a request that the thread has not begun and waits until the thread is idle, so that the
/// caller may use the schedule. throws  kernels::Cancelled.
std::unique_lock<std::mutex> BatchLoader::wait_for_thread() {
  constexpr std::chrono::milliseconds poll_interval{20};
  std::unique_lock lock(mutex_);
  requested_.reset();
  while (!changed_.wait_for(lock, poll_interval, [this] { return !preparing_; })) {
    kernels::throw_if_cancelled();
  }
  return lock;
}

/// Takes the batches that the thread has prepared. nullopt if they are for another position or if
/// preparing them failed; prepare() then throws the error on the caller's thread.
std::optional<StepBatches> BatchLoader::take_prepared(BatchPosition position) {
  const std::unique_lock lock = wait_for_thread();
  std::optional<StepBatches> step = std::exchange(prepared_, std::nullopt);
  if (step && prepared_position_ != position) step.reset();
  return step;
}

void BatchLoader::prefetch(BatchPosition position) {
  if (!start_thread()) return;
  {
    const std::lock_guard lock(mutex_);
    requested_ = position;
  }
  changed_.notify_all();
}

bool BatchLoader::start_thread() {
  if (thread_.joinable() || thread_failed_) return !thread_failed_;
  const BlockedSignals blocked;
  try {
    thread_ = std::jthread([this](const std::stop_token& stop) { serve(stop); });
  } catch (const std::system_error&) {
    thread_failed_ = true;
  } catch (const std::bad_alloc&) {
    thread_failed_ = true;
  }
  return !thread_failed_;
}

void BatchLoader::serve(const std::stop_token& stop) {
  // throw_if_cancelled() is not used: the flag of its scope may be destroyed before this thread
  // ends.
  const auto throw_if_stopped = [&stop] {
    if (stop.stop_requested()) throw kernels::Cancelled();
  };
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [this] { return requested_.has_value(); })) {
    const BatchPosition position = *std::exchange(requested_, std::nullopt);
    preparing_ = true;
    lock.unlock();
    std::optional<StepBatches> step;
    try {
      step = prepare(position, throw_if_stopped);
    } catch (const std::exception&) {  // prepare() repeats the error, see take_prepared()
    }
    lock.lock();
    prepared_ = std::move(step);
    prepared_position_ = position;
    preparing_ = false;
    changed_.notify_all();
  }
}

}  // namespace tapestry
