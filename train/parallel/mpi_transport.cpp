// SPDX-License-Identifier: BSD-3-Clause
#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "train/parallel/transport.h"
#include "train/system/blocked_signals.h"

namespace tapestry {
namespace {

/// Sends messages with non-blocking point-to-point calls of MPI. One thread at a time uses MPI
/// (MPI_THREAD_SERIALIZED). Since no call waits, no thread blocks another thread.
///
/// MPI moves large messages only inside its calls. While transfers of gradients are open, a thread
/// therefore calls MPI repeatedly. This thread is also the watchdog: rank 0 and each other process
/// exchange heartbeats, and MPI_Abort ends all processes if a process sends no heartbeat within the
/// limit.
class MpiTransport final : public Transport {
 public:
  explicit MpiTransport(std::chrono::seconds limit) : limit_(limit) {
    send_in_parts();
    int level = 0;
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level), "MPI_Init_thread");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (level < MPI_THREAD_SERIALIZED) fail("this MPI library does not support multiple threads");
    int rank = 0, size = 0;
    check(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
    check(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
    rank_ = static_cast<std::size_t>(rank);
    size_ = static_cast<std::size_t>(size);
    gather_hosts();
    const std::size_t end = rank_ == 0 ? size_ : 1;
    for (std::size_t peer = rank_ == 0 ? 1 : 0; peer < end; ++peer) {
      peers_.push_back({.rank = static_cast<int>(peer), .heard = Clock::now()});
    }
    const BlockedSignals blocked;  // signals go to the thread that trains
    thread_ = std::thread([this] { watch(); });
  }

  /// Waits for the last heartbeat of the other processes, and for the processes themselves in
  /// MPI_Finalize.
  ~MpiTransport() override {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_one();
    thread_.join();
    for (const Peer& peer : peers_) send_heartbeat(peer, goodbye);
    for (Peer& peer : peers_) {
      while (!peer.has_left) receive_heartbeat(peer);
    }
    MPI_Finalize();
  }

  std::size_t rank() const override { return rank_; }
  std::size_t size() const override { return size_; }

  Request start_send(std::size_t to, Channel channel, std::span<const std::byte> bytes) override {
    const std::lock_guard lock(mutex_);
    MPI_Request request{};
    check(MPI_Isend(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, static_cast<int>(to),
                    static_cast<int>(channel), MPI_COMM_WORLD, &request),
          "MPI_Isend");
    return keep(request, channel);
  }

  Request start_receive(std::size_t from, Channel channel, std::span<std::byte> bytes) override {
    const std::lock_guard lock(mutex_);
    MPI_Request request{};
    check(MPI_Irecv(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, static_cast<int>(from),
                    static_cast<int>(channel), MPI_COMM_WORLD, &request),
          "MPI_Irecv");
    return keep(request, channel);
  }

  bool is_done(Request request) override {
    const std::lock_guard lock(mutex_);
    const auto found = transfers_.find(request);
    if (found == transfers_.end()) fail("a finished transfer was tested again");
    if (!test(found->second)) return false;
    transfers_.erase(found);
    return true;
  }

  /// Waits at most one second for the thread that uses MPI, since it may hang in a call.
  [[noreturn]] void abort(int code) override {
    const std::unique_lock lock(mutex_, std::chrono::seconds(1));
    end_all(code);
  }

 private:
  /// Makes Open MPI send large messages over TCP in parts. By default, each message is a single
  /// write to the memory of the other process ("put"). The permission for a message in the opposite
  /// direction then queues behind it on the same connection, so that two processes that send to
  /// each other take turns. Call this before MPI_Init.
  static void send_in_parts() {
    constexpr int keep_value_of_user = 0;
    ::setenv("OMPI_MCA_btl_tcp_flags", "send,inplace", keep_value_of_user);
  }

  using Clock = std::chrono::steady_clock;

  /// A process that exchanges heartbeats with this process.
  struct Peer {
    int rank = 0;
    Clock::time_point heard{};
    bool has_left = false;  ///< whether the process has sent its last heartbeat
  };
  static constexpr int heartbeat = 100;  ///< tag of heartbeats; other tags are channels
  static constexpr char alive = 1, goodbye = 2;

  /// The names of the machines of all processes, for messages.
  void gather_hosts() {
    std::array<char, MPI_MAX_PROCESSOR_NAME> own{};
    int length = 0;
    check(MPI_Get_processor_name(own.data(), &length), "MPI_Get_processor_name");
    hosts_.resize(size_);
    check(MPI_Allgather(own.data(), MPI_MAX_PROCESSOR_NAME, MPI_CHAR, hosts_.data(),
                        MPI_MAX_PROCESSOR_NAME, MPI_CHAR, MPI_COMM_WORLD),
          "MPI_Allgather");
  }

  /// Does not wait: MPI buffers a message of one byte.
  void send_heartbeat(const Peer& peer, const char& sign) {
    MPI_Request request{};
    check(MPI_Isend(&sign, 1, MPI_CHAR, peer.rank, heartbeat, MPI_COMM_WORLD, &request),
          "MPI_Isend");
    check(MPI_Request_free(&request), "MPI_Request_free");
  }

  bool has_heartbeat(const Peer& peer) {
    int has_come = 0;
    check(MPI_Iprobe(peer.rank, heartbeat, MPI_COMM_WORLD, &has_come, MPI_STATUS_IGNORE),
          "MPI_Iprobe");
    return has_come != 0;
  }

  void receive_heartbeat(Peer& peer) {
    char sign = 0;
    check(MPI_Recv(&sign, 1, MPI_CHAR, peer.rank, heartbeat, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
          "MPI_Recv");
    peer.heard = Clock::now();
    peer.has_left = sign == goodbye;
  }

  /// Sends and receives heartbeats, and ends all processes if a process sends no heartbeat. Does
  /// not count time during which this process was stopped, for example by SIGSTOP.
  void exchange_heartbeats() {
    const Clock::time_point now = Clock::now();
    const bool was_stopped = now - looked_ > limit_ / 2, is_due = now - sent_ >= interval();
    looked_ = now;
    if (is_due) sent_ = now;
    // Rank 0 reports a process that hangs. The other ranks wait longer, and report rank 0 if it
    // hangs.
    const auto timeout = limit_ + interval() * static_cast<int>(std::min<std::size_t>(rank_, 8));
    for (Peer& peer : peers_) {
      if (is_due) send_heartbeat(peer, alive);
      if (was_stopped) peer.heard = now;
      while (has_heartbeat(peer)) receive_heartbeat(peer);
      if (now - peer.heard > timeout) end_without(peer);
    }
  }

  std::chrono::milliseconds interval() const {
    return std::min<std::chrono::milliseconds>(limit_ / 8, std::chrono::seconds(1));
  }

  [[noreturn]] void end_without(const Peer& peer) {
    std::fprintf(
        stderr,
        "tapestry: error: rank %d on %s: no heartbeat for %lld seconds: the process hangs or has "
        "ended, or its connection is lost\nhint: check whether its machine can be reached; resume "
        "the run with --resume, on any number of processes; TAPESTRY_PEER_TIMEOUT sets the limit\n",
        peer.rank, hosts_[static_cast<std::size_t>(peer.rank)].data(),
        static_cast<long long>(limit_.count()));
    end_all(9);
  }

  /// Whether a request is done. MPI sets a finished request to MPI_REQUEST_NULL, which may be
  /// tested again.
  bool test(MPI_Request& request) {
    int done = 0;
    check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    return done != 0;
  }

  Request keep(MPI_Request request, Channel channel) {
    transfers_.emplace(++last_, request);
    if (channel == Channel::gradients) {
      open_.push_back(last_);
      if (open_.size() == 1) changed_.notify_one();
    }
    return last_;
  }

  /// Whether transfers of gradients are unfinished. Testing one transfer lets MPI progress all
  /// transfers.
  bool has_open_transfers() {
    for (; !open_.empty(); open_.pop_front()) {
      const auto found = transfers_.find(open_.front());
      if (found != transfers_.end() && !test(found->second)) return true;
    }
    return false;
  }

  /// Exchanges heartbeats, and lets MPI progress transfers while the training thread computes. Each
  /// poll interrupts a computing thread: polling every 100 us made a step 13 % longer. The pause
  /// doubles after a poll that completes no transfer, up to 2 ms: TCP buffers hold several MB,
  /// which take 3 ms to send over 10 Gbit/s.
  void watch() {
    constexpr std::chrono::milliseconds min_pause(1), max_pause(2);
    std::chrono::milliseconds pause = min_pause;
    std::unique_lock lock(mutex_);
    while (!ends_) {
      exchange_heartbeats();
      const std::size_t before = open_.size();
      if (!has_open_transfers()) {
        changed_.wait_for(lock, interval() / 2, [this] { return ends_ || !open_.empty(); });
        pause = min_pause;
        continue;
      }
      pause = open_.size() < before ? min_pause : std::min(2 * pause, max_pause);
      lock.unlock();
      std::this_thread::sleep_for(pause);
      lock.lock();
    }
  }

  /// Only the thread that may use MPI calls this.
  [[noreturn]] static void end_all(int code) {
    MPI_Abort(MPI_COMM_WORLD, code);
    std::_Exit(code);
  }

  [[noreturn]] void fail(const char* what) {
    std::fprintf(stderr, "tapestry: error: MPI: rank %zu: %s\n", rank_, what);
    end_all(9);
  }

  void check(int error, const char* call) {
    if (error == MPI_SUCCESS) return;
    char text[MPI_MAX_ERROR_STRING + 1] = "";
    int length = 0;
    MPI_Error_string(error, text, &length);
    std::fprintf(stderr, "tapestry: error: %s: rank %zu: %s\n", call, rank_, text);
    end_all(9);
  }

  std::timed_mutex mutex_;  ///< held by the thread that uses MPI
  std::chrono::seconds limit_;
  std::size_t rank_ = 0, size_ = 1;
  std::vector<std::array<char, MPI_MAX_PROCESSOR_NAME>> hosts_;  ///< host names by rank
  std::vector<Peer> peers_;
  /// Time of the last check for heartbeats, and of the last heartbeats sent.
  Clock::time_point looked_ = Clock::now(), sent_{};
  std::unordered_map<Request, MPI_Request> transfers_;
  Request last_ = 0;
  std::deque<Request> open_;  ///< transfers of gradients, in the order of their start
  bool ends_ = false;
  std::condition_variable_any changed_;  ///< signals a change of `open_` or `ends_`
  std::thread thread_;
};

}  // namespace
}  // namespace tapestry

extern "C" {

[[gnu::visibility("default")]] extern const char* const tapestry_plugin_version;
const char* const tapestry_plugin_version = TAPESTRY_VERSION;

[[gnu::visibility("default")]] tapestry::Transport* tapestry_join_processes(
    std::chrono::seconds limit) {
  return new tapestry::MpiTransport(limit);
}
}
