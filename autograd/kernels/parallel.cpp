// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/kernels/parallel.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <limits>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

namespace tapestry::kernels {
namespace {

/// How often an idle thread looks for work before it sleeps: a few tens of microseconds, longer
/// than the serial work between two operations.
constexpr int spins_before_sleep = 20000;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

std::size_t available_cores() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) != 0) return 1;
  return static_cast<std::size_t>(std::max(1, CPU_COUNT(&cores)));
}

/// The flag of the current CancellationScope.
std::atomic<const std::atomic<bool>*> cancellation{nullptr};
std::atomic<int> uncancellable_scopes{0};

/// A parallel_for inside a piece runs serially.
thread_local bool inside_a_piece = false;

/// The unclaimed pieces [end - left, end) of one thread. The ticket holds the job's number and
/// `left`: a thread that has decremented it may read the job's fields, which change only while no
/// piece is pending.
struct alignas(64) Share {
  std::atomic<std::uint64_t> ticket{0};
  std::uint32_t end = 0;

  bool empty() const { return left(ticket.load(std::memory_order_acquire)) == 0; }

  void fill(std::uint32_t generation, std::uint32_t begin, std::uint32_t new_end) {
    end = new_end;
    ticket.store((std::uint64_t{generation} << 32) | (new_end - begin), std::memory_order_seq_cst);
  }

  /// False if no piece is left to claim.
  bool claim(std::uint32_t& piece) {
    std::uint64_t seen = ticket.load(std::memory_order_acquire);
    do {
      if (left(seen) == 0) return false;
    } while (!ticket.compare_exchange_weak(seen, seen - 1, std::memory_order_acq_rel));
    piece = end - left(seen);
    return true;
  }

 private:
  static std::uint32_t left(std::uint64_t ticket) { return static_cast<std::uint32_t>(ticket); }
};

/// The worker threads of the process. One job runs at a time. Each thread has a share of
/// consecutive pieces and takes pieces from the shares of other threads when its own share is done
/// (work stealing): a thread tends to read from its cache what it wrote in the job before, and a
/// worker that is descheduled delays the job only if it holds a piece.
class Workers {
 public:
  using Body = void (*)(void*, std::size_t);

  /// Maximum number of threads that take part in a job.
  std::size_t usable_threads() const {
    return no_more_threads_.load(std::memory_order_relaxed)
               ? started_.load(std::memory_order_relaxed) + 1
               : max_threads;
  }

  /// Returns false without running the job if another thread's job is running.
  bool run(std::size_t pieces, std::size_t threads, Body body, void* context) {
    const std::unique_lock lock(busy_, std::try_to_lock);
    if (!lock.owns_lock()) return false;
    start_workers(threads - 1);
    body_ = body;
    context_ = context;
    pending_.store(static_cast<std::uint32_t>(pieces), std::memory_order_relaxed);
    threads_.store(threads, std::memory_order_relaxed);
    share_out(pieces, threads);
    if (sleepers_.load(std::memory_order_seq_cst) > 0) {
      wake_.fetch_add(1, std::memory_order_relaxed);
      wake_.notify_all();
    }
    while (work_on_one_piece(0)) {
    }
    wait_for_the_rest();
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
    return true;
  }

 private:
  void share_out(std::size_t pieces, std::size_t threads) {
    ++generation_;
    for (std::size_t i = 0; i < threads; ++i) {
      shares_[i].fill(generation_, static_cast<std::uint32_t>(pieces * i / threads),
                      static_cast<std::uint32_t>(pieces * (i + 1) / threads));
    }
  }

  /// Runs one piece, from the thread's own share if it has pieces left. Returns false if no piece
  /// is left.
  bool work_on_one_piece(std::size_t thread) {
    const std::size_t threads = threads_.load(std::memory_order_relaxed);
    for (std::size_t i = 0; i < threads; ++i) {
      std::uint32_t piece = 0;
      if (!shares_[(thread + i) % threads].claim(piece)) continue;
      run_piece(piece);
      if (pending_.fetch_sub(1, std::memory_order_acq_rel) == 1) pending_.notify_one();
      return true;
    }
    return false;
  }

  void run_piece(std::size_t piece) {
    try {
      throw_if_cancelled();
      body_(context_, piece);
    } catch (...) {
      const std::lock_guard lock(error_mutex_);
      if (!error_) error_ = std::current_exception();
    }
  }

  void wait_for_the_rest() {
    for (int spin = 0; spin < spins_before_sleep; ++spin) {
      if (pending_.load(std::memory_order_acquire) == 0) return;
      pause();
    }
    for (std::uint32_t left; (left = pending_.load(std::memory_order_acquire)) != 0;) {
      pending_.wait(left);
    }
  }

  /// Starts up to `wanted` workers. If the system fails to start one, no further worker is started,
  /// and the existing workers do all the work.
  void start_workers(std::size_t wanted) {
    if (no_more_threads_.load(std::memory_order_relaxed)) return;
    try {
      for (; started_ < wanted; ++started_) {
        const std::size_t thread = started_.load(std::memory_order_relaxed) + 1;
        std::thread([this, thread] { serve(thread); }).detach();
      }
    } catch (const std::system_error&) {
      no_more_threads_.store(true, std::memory_order_relaxed);
    } catch (const std::bad_alloc&) {
      no_more_threads_.store(true, std::memory_order_relaxed);
    }
  }

  [[noreturn]] void serve(std::size_t thread) {
    inside_a_piece = true;
    for (;;) {
      int spins = 0;
      while (spins < spins_before_sleep) {
        if (takes_part(thread) && work_on_one_piece(thread)) {
          spins = 0;
        } else {
          ++spins;
          pause();
        }
      }
      sleep_until_work(thread);
    }
  }

  bool takes_part(std::size_t thread) const {
    return thread < threads_.load(std::memory_order_relaxed);
  }

  bool any_work() const {
    return std::any_of(shares_.begin(), shares_.end(),
                       [](const Share& share) { return !share.empty(); });
  }

  void sleep_until_work(std::size_t thread) {
    const std::uint32_t before = wake_.load(std::memory_order_relaxed);
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (!any_work() || !takes_part(thread)) wake_.wait(before);
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
  }

  std::mutex busy_;
  std::atomic<std::size_t> started_{0};
  std::atomic<bool> no_more_threads_{false};  // the system failed to start a thread

  Body body_ = nullptr;
  void* context_ = nullptr;
  std::uint32_t generation_ = 0;
  std::array<Share, max_threads> shares_;
  alignas(64) std::atomic<std::uint32_t> pending_{0};
  alignas(64) std::atomic<std::uint32_t> wake_{0};
  std::atomic<std::uint32_t> sleepers_{0};
  std::atomic<std::size_t> threads_{0};  // threads that run the job
  std::mutex error_mutex_;
  std::exception_ptr error_;  // the first exception of a piece
};

/// Never destroyed: its threads live as long as the process.
Workers& workers() {
  static Workers* const instance = new Workers;
  return *instance;
}

std::atomic<std::size_t>& threads_setting() {
  static std::atomic<std::size_t> threads = available_cores();
  return threads;
}

}  // namespace

void set_num_threads(std::size_t threads) {
  threads_setting() = threads != 0 ? threads : available_cores();
}

std::size_t num_threads() { return threads_setting(); }

std::size_t threads_at_work() { return std::min(num_threads(), workers().usable_threads()); }

CancellationScope::CancellationScope(const std::atomic<bool>* flag) { cancellation = flag; }
CancellationScope::~CancellationScope() { cancellation = nullptr; }

UncancellableScope::UncancellableScope() { ++uncancellable_scopes; }
UncancellableScope::~UncancellableScope() { --uncancellable_scopes; }

void throw_if_cancelled() {
  const std::atomic<bool>* const flag = cancellation.load(std::memory_order_relaxed);
  if (flag == nullptr || !flag->load(std::memory_order_relaxed)) return;
  if (uncancellable_scopes == 0) throw Cancelled();
}

namespace detail {

void run_pieces(std::size_t pieces, void (*body)(void*, std::size_t), void* context) {
  const std::size_t threads = std::min({num_threads(), pieces, max_threads});
  const bool fits = pieces <= std::numeric_limits<std::uint32_t>::max();
  if (threads > 1 && fits && !inside_a_piece) {
    struct Inside {
      Inside() { inside_a_piece = true; }
      ~Inside() { inside_a_piece = false; }
    } const inside;
    if (workers().run(pieces, threads, body, context)) return;
  }
  for (std::size_t i = 0; i < pieces; ++i) {
    throw_if_cancelled();
    body(context, i);
  }
}

}  // namespace detail
}  // namespace tapestry::kernels
