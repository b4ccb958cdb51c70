// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <cstddef>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "train/base/error.h"
#include "train/parallel/transport.h"

namespace tapestry {

/// The processes of a run differ, for example in their configs.
class PeerFailure : public ProgramError {
 public:
  using ProgramError::ProgramError;
};

/// The processes that train a model together. All processes have the same state, and each process
/// computes a part of each step. A group of one process exchanges no messages.
///
/// All processes call all_gather() and the functions based on it in the same order. If the work of
/// one process throws kernels::Cancelled or AnomalyError, all processes throw it and may continue.
/// Any other exception is thrown only in that process, while the other processes wait. That process
/// must then end the program, which ends all processes (join_processes()).
class ProcessGroup {
 public:
  /// The group of this process only.
  ProcessGroup() = default;
  /// The processes of `transport`, which must outlive the group.
  ///
  /// timeout  see timeout()
  explicit ProcessGroup(Transport& transport, std::chrono::seconds timeout = {})
      : transport_(&transport), timeout_(timeout) {}
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  /// The number of this process, from 0.
  std::size_t rank() const { return transport_ == nullptr ? 0 : transport_->rank(); }
  /// Number of processes.
  std::size_t size() const { return transport_ == nullptr ? 1 : transport_->size(); }
  /// The maximum time that a process waits for a file that another process has written to a shared
  /// file system.
  std::chrono::seconds timeout() const { return timeout_; }
  /// Whether this is the process that writes the run directory and prints: rank 0.
  bool is_rank_0() const { return rank() == 0; }

  /// Calls `work` and returns the results of all processes, in the order of their ranks.
  ///
  /// abandon  completes transfers that `work` begins but does not finish; called in all processes
  ///          before one of the exceptions above is thrown
  /// call     the function that all processes have called
  /// throws   the exceptions of `work`, see above; AnomalyError if one process throws it and
  ///          another process throws kernels::Cancelled. PeerFailure if the processes have called
  ///          different functions.
  std::vector<std::string> all_gather(const std::function<std::string()>& work,
                                      const std::function<void()>& abandon = nullptr,
                                      const char* call = "all_gather");

  /// all_gather() for work without results.
  void together(const std::function<void()>& work);
  /// Whether `mine` is true in any process.
  bool any_process(bool mine);
  /// Calls `work` only in rank 0, while the other processes wait. Returns its result, a text or a
  /// trivially copyable value, in all processes.
  std::string broadcast(const std::function<std::string()>& work);
  template <class Work>
  requires std::is_trivially_copyable_v<std::invoke_result_t<Work>>
  auto broadcast(const Work& work) {
    std::invoke_result_t<Work> value{};
    const std::function<std::string()> as_bytes = [&] {
      value = work();
      return std::string(reinterpret_cast<const char*>(&value), sizeof value);
    };
    std::memcpy(&value, broadcast(as_bytes).data(), sizeof value);
    return value;
  }
  /// Overload for work without a result.
  void on_rank_0(const std::function<void()>& work);

  /// Rejects a process whose value differs from the value of rank 0. All processes must call this
  /// function.
  ///
  /// what    a noun such as "config"
  /// text    returns a text that describes the value; not called in a group of one process
  /// code    exit code of the error
  /// throws  PeerFailure in all processes. Its message names the lowest rank whose text differs,
  ///         the machine of this rank, and the first line that differs.
  void require_equal(const char* what, const std::function<std::string()>& text, ExitCode code);

  /// A transfer in progress, of any number of bytes.
  using Transfer = std::vector<Transport::Request>;
  /// Begins to send bytes, which must not change before wait().
  Transfer start_send(std::size_t to, std::span<const std::byte> bytes,
                      Transport::Channel channel = Transport::Channel::data);
  /// Begins to receive exactly this number of bytes.
  Transfer start_receive(std::size_t from, std::span<std::byte> bytes,
                         Transport::Channel channel = Transport::Channel::data);
  /// Waits until the transfer is done.
  void wait(const Transfer& transfer);
  /// Waits until all transfers are done.
  void wait(const std::vector<Transfer>& transfers);

 private:
  std::vector<std::string> gather(const std::string& mine);
  void send_message(std::size_t to, const std::string& message);
  std::string receive_message(std::size_t from);

  Transport* transport_ = nullptr;
  std::chrono::seconds timeout_{};
};

/// The group of this process only.
ProcessGroup& single_process();

}  // namespace tapestry
