// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "data/batch.h"
#include "data/batch_schedule.h"
#include "data/corpus.h"
#include "train/config/config.h"

namespace tapestry {

/// The batches of a step, and the position of the batch that follows them.
struct StepBatches {
  std::vector<Batch> batches;
  BatchPosition next;
};

/// Prepares the batches of a run's steps. The batches of the next step are prepared on another
/// thread while the current step is computed. The batches of a step depend only on its position.
///
/// A step is prefetched only if preparing the previous one took min_prefetch_time. The thread
/// starts on first use and blocks all signals. If it cannot be started, or has no free core, take()
/// prepares the step itself.
class BatchLoader {
 public:
  /// The next step is prefetched if preparing a step takes at least this CPU time.
  /// Below this time, prefetching can cost more than it saves: on a machine with more busy threads
  /// than cores, the trainer waited 5 ms for a step that takes 0.1 ms to prepare.
  static constexpr std::chrono::nanoseconds min_prefetch_time = std::chrono::milliseconds(1);

  /// Batches of the training examples of `corpus`, which must outlive the loader. A step has
  /// train.accumulate batches.
  ///
  /// throws  DataError, see make_batch_schedule().
  BatchLoader(const Corpus& corpus, const Config& config,
              std::chrono::nanoseconds prefetch_from = min_prefetch_time);
  /// Abandons a step that is being prepared.
  ~BatchLoader();
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;

  /// The batches of the step that begins at `position`, which may be any position of the schedule.
  ///
  /// should_prefetch  whether the caller is going to take the following step next
  /// throws           kernels::Cancelled; std::bad_alloc. The same call may then be repeated.
  StepBatches take(BatchPosition position, bool should_prefetch);

  /// Whether a step has been prefetched.
  bool is_ready();

  /// Number of batches of every epoch.
  std::size_t batches_per_epoch() const { return schedule_.batches_per_epoch(); }
  /// The sizes of the batches of an epoch.
  BatchStatistics measure(std::uint64_t epoch);

 private:
  StepBatches prepare(BatchPosition position, const std::function<void()>& throw_if_ended);
  bool is_worth_prefetching();
  std::unique_lock<std::mutex> wait_for_thread();
  std::optional<StepBatches> take_prepared(BatchPosition position);
  void prefetch(BatchPosition position);
  bool start_thread();
  void serve(const std::stop_token& stop);

  const Corpus& corpus_;
  BatchRules rules_;
  std::size_t batches_per_step_;
  std::chrono::nanoseconds prefetch_from_;
  BatchSchedule schedule_;  ///< used by the thread while it prepares a step

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::optional<BatchPosition> requested_;  ///< position of the next step to prepare
  bool preparing_ = false;                  ///< whether the thread is preparing a step
  std::optional<StepBatches> prepared_;
  std::chrono::nanoseconds last_time_{0};  ///< CPU time of the last step prepared
  BatchPosition prepared_position_;
  bool thread_failed_ = false;  ///< whether starting the thread failed
  std::jthread thread_;         ///< declared last: ends before the other members are destroyed
};

}  // namespace tapestry
