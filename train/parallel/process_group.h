#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "data/io/error.h"
#include "train/parallel/transport.h"

namespace tapestry {

/// An error of another process of the run, which ends this process as well.
class PeerFailure : public UserError {
 public:
  using UserError::UserError;
};

/// The processes that train a model together; each has the same state and computes a part of each
/// step. A group of one process does everything directly.
///
/// All processes call all_gather() and the functions based on it in the same order; processes that
/// do not, because they have decided differently, end with an error. A process whose work throws
/// informs the others in its next call, so that all of them continue or throw.
class ProcessGroup {
 public:
  /// The group of this process alone.
  ProcessGroup() = default;
  /// The processes of `transport`, which must outlive the group, and so must `last_step`, which
  /// note_step() sets.
  ///
  /// timeout  see timeout()
  explicit ProcessGroup(Transport& transport, std::atomic<std::uint64_t>* last_step = nullptr,
                        std::chrono::seconds timeout = {});
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  /// The number of this process, from 0.
  std::size_t rank() const { return transport_ == nullptr ? 0 : transport_->rank(); }
  /// Number of processes.
  std::size_t size() const { return transport_ == nullptr ? 1 : transport_->size(); }
  /// How long a process waits for what another one has written to a shared file system.
  std::chrono::seconds timeout() const { return timeout_; }
  /// Whether this is the process that writes the run directory and prints: rank 0.
  bool is_rank_0() const { return rank() == 0; }

  /// Does `work` and returns its results in all processes, in the order of their ranks.
  ///
  /// throws  what `work` throws. If it throws in another process: kernels::Cancelled or
  ///         AnomalyError if it was one of these there, PeerFailure with the exit code, the message
  ///         and the hint otherwise. If it throws in several, an error goes before AnomalyError,
  ///         this before Cancelled, and then the lower rank first. PeerFailure if other processes
  ///         have called another function.
  std::vector<std::string> all_gather(const std::function<std::string()>& work) {
    return gather_results(Call::all_gather, work);
  }

  /// all_gather() of work that begins transfers, which end after it. If it throws in any process,
  /// `abandon`, which is to complete the transfers, is called in all of them before the error is
  /// thrown; unless a process has called another function, so that it would wait without end.
  std::vector<std::string> all_gather(const std::function<std::string()>& work,
                                      const std::function<void()>& abandon) {
    return gather_results(Call::all_gather_with_transfers, work, abandon);
  }

  /// all_gather() of work without results: it is done by all processes or throws in all of them.
  void together(const std::function<void()>& work);
  /// Whether `mine` is true in a process.
  bool any_process(bool mine);
  /// Does `work` in rank 0 alone, while the others wait, and returns its result in all.
  std::string broadcast(const std::function<std::string()>& work);
  /// The same for work without a result.
  void on_rank_0(const std::function<void()>& work);

  /// Runs the program of all processes, and returns its exit code. If it throws, all processes end:
  /// rank 0 throws, the others return the exit code of the error.
  int run(const std::function<int()>& program);

  /// Records that this process has done a step, for messages about a process that has failed.
  void note_step(std::uint64_t step) {
    if (last_step_ != nullptr) *last_step_ = step;
  }

  /// Makes transfers that all processes wait for. If something is thrown, the other processes,
  /// which wait, cannot be informed: prints the error and ends all processes. In a group of one
  /// process, what `transfers` throws is thrown.
  void transfer(const std::function<void()>& transfers);

  /// Whether an error of a process has been thrown that ends all of them.
  bool has_failed() const { return has_failed_; }
  /// Number of calls that all processes have made together: all_gather() and the functions based on
  /// it. 0 in a group of one process.
  std::uint64_t calls() const { return calls_; }

  /// A transfer of any number of bytes that has begun.
  using Transfer = std::vector<Transport::Request>;
  /// Begins to send bytes, which must not change before wait().
  Transfer start_send(std::size_t to, std::span<const std::byte> bytes,
                      Transport::Channel channel = Transport::Channel::data);
  /// Begins to receive exactly as many bytes.
  Transfer start_receive(std::size_t from, std::span<std::byte> bytes,
                         Transport::Channel channel = Transport::Channel::data);
  /// Waits until the transfer is done. Transfers may be waited for on several threads.
  void wait(const Transfer& transfer);

  using Duration = std::chrono::steady_clock::duration;
  /// Records that this process has waited for parameters, which interrupts what it computes.
  void note_wait(Duration time) { waited_ += time.count(); }
  /// How long this process has waited for parameters up to now. Threads that wait at the same time
  /// count once.
  Duration waited() const { return Duration(waited_); }

 private:
  /// The functions of which all processes have to call the same.
  enum class Call : int {
    all_gather,
    all_gather_with_transfers,
    together,
    any_process,
    broadcast,
    on_rank_0,
    end
  };
  static const char* call_name(Call call);

  std::vector<std::string> gather_results(Call call, const std::function<std::string()>& work,
                                          const std::function<void()>& abandon = nullptr);
  void require_same_call(const std::vector<std::string>& messages);
  std::vector<std::string> gather(std::string mine);
  void send_message(std::size_t to, const std::string& message);
  std::string receive_message(std::size_t from);

  Transport* transport_ = nullptr;
  std::atomic<std::uint64_t>* last_step_ = nullptr;
  std::chrono::seconds timeout_{};
  std::uint64_t calls_ = 0;
  std::atomic<Duration::rep> waited_ = 0;
  bool has_failed_ = false;  ///< whether all_gather() has thrown an error that ends all processes
};

/// The group of this process alone.
ProcessGroup& single_process();

/// A range of the micro-batches of a step.
struct MicroBatches {
  std::size_t begin = 0, end = 0;
  std::size_t size() const { return end - begin; }
};

/// The micro-batches that a process computes: consecutive ones, in the order of the ranks, whose
/// numbers differ by at most 1 between processes.
MicroBatches micro_batch_range(std::size_t rank, std::size_t processes, std::size_t micro_batches);

}  // namespace tapestry
