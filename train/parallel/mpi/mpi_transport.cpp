#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "train/parallel/mpi/plugin.h"
#include "train/parallel/mpi/send_queue.h"
#include "train/platform/blocked_signals.h"

namespace tapestry {
namespace {

/// Messages over point-to-point calls of MPI. MPI is used by one thread at a time
/// (MPI_THREAD_SERIALIZED), and never waits inside a call, so that a thread does not keep the
/// others from it.
///
/// MPI moves large messages only inside of its calls. While transfers of gradients or parameters
/// are open, a thread therefore calls it again and again.
class MpiTransport final : public Transport {
 public:
  MpiTransport() {
    send_in_parts();
    int level = 0;
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level), "MPI_Init_thread");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (level < MPI_THREAD_SERIALIZED) fail("this MPI does not support several threads");
    int rank = 0, size = 0;
    check(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
    check(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
    rank_ = static_cast<std::size_t>(rank);
    size_ = static_cast<std::size_t>(size);
    const BlockedSignals blocked;  // signals go to the thread that trains
    thread_ = std::thread([this] { make_progress(); });
  }

  /// MPI_Finalize waits for the other processes.
  ~MpiTransport() override {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_one();
    thread_.join();
    MPI_Finalize();
  }

  std::size_t rank() const override { return rank_; }
  std::size_t size() const override { return size_; }

  Request start_send(std::size_t to, Channel channel, std::span<const std::byte> bytes) override {
    const std::lock_guard lock(mutex_);
    const Request request = keep({}, channel);
    if (channel == Channel::parameters) {
      queue_.add({.request = request, .to = to, .bytes = bytes});
      send_queued();
    } else {
      begin_send(request, to, channel, bytes);
    }
    return request;
  }

  Request start_receive(std::size_t from, Channel channel, std::span<std::byte> bytes) override {
    const std::lock_guard lock(mutex_);
    MPI_Request request{};
    check(MPI_Irecv(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, static_cast<int>(from),
                    static_cast<int>(channel), MPI_COMM_WORLD, &request),
          "MPI_Irecv");
    return keep({.request = request, .has_begun = true}, channel);
  }

  bool is_done(Request request) override {
    const std::lock_guard lock(mutex_);
    send_queued();
    const auto found = requests_.find(request);
    if (found == requests_.end()) fail("the end of a transfer was asked for twice");
    if (!test(found->second)) return false;
    requests_.erase(found);
    return true;
  }

  /// Another thread may be in a call of MPI, and may hang there: it is waited for, but not long.
  [[noreturn]] void abort(int code) override {
    const std::unique_lock lock(mutex_, std::chrono::seconds(1));
    end_all(code);
  }

 private:
  /// Makes Open MPI send large messages over TCP in parts. By default each is one write to the
  /// memory of the other process ("put"), behind which the permission for a message in the other
  /// direction waits in the same connection, so that two processes which send to each other take
  /// turns. To be called before MPI_Init.
  static void send_in_parts() {
    constexpr int keep_value_of_user = 0;
    ::setenv("OMPI_MCA_btl_tcp_flags", "send,inplace", keep_value_of_user);
  }

  struct Transfer {
    MPI_Request request{};
    bool has_begun = false;  ///< if not, it is in the queue
    bool is_done = false;
  };

  void begin_send(Request request, std::size_t to, Channel channel,
                  std::span<const std::byte> bytes) {
    Transfer& transfer = requests_.at(request);
    check(MPI_Isend(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, static_cast<int>(to),
                    static_cast<int>(channel), MPI_COMM_WORLD, &transfer.request),
          "MPI_Isend");
    transfer.has_begun = true;
  }

  /// Begins to send the messages of the queue that are next.
  void send_queued() {
    if (queue_.empty()) return;
    queue_.proceed(
        SendQueue::Clock::now(),
        [this](Request request) {
          const auto found = requests_.find(request);
          return found == requests_.end() || test(found->second);
        },
        [this](const SendQueue::Message& message) {
          begin_send(message.request, message.to, Channel::parameters, message.bytes);
        });
  }

  Request keep(const Transfer& transfer, Channel channel) {
    requests_.emplace(++last_, transfer);
    if (channel == Channel::gradients || channel == Channel::parameters) {
      open_.push_back(last_);
      if (open_.size() == 1) changed_.notify_one();
    }
    return last_;
  }

  bool test(Transfer& transfer) {
    if (!transfer.has_begun) return false;
    int done = transfer.is_done ? 1 : 0;
    if (done == 0) check(MPI_Test(&transfer.request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    transfer.is_done = done != 0;
    return transfer.is_done;
  }

  /// Whether transfers of gradients or parameters are not done. Testing one of them lets MPI work on
  /// all.
  bool has_open_transfers() {
    send_queued();
    for (; !open_.empty(); open_.pop_front()) {
      const auto found = requests_.find(open_.front());
      if (found != requests_.end() && !test(found->second)) return true;
    }
    return false;
  }

  /// Lets MPI work while the training thread computes. Each look takes the processor from a thread
  /// that computes: with a look every 100 us, a step took 13 % longer. After a look at which
  /// nothing was done the pause is twice as long. The buffers of TCP hold some MB, which a link of
  /// 10 Gbit/s needs 3 ms to send.
  void make_progress() {
    constexpr std::chrono::milliseconds shortest(1), longest(2);
    std::chrono::milliseconds pause = shortest;
    std::unique_lock lock(mutex_);
    while (!ends_) {
      const std::size_t before = open_.size();
      if (!has_open_transfers()) {
        changed_.wait(lock, [this] { return ends_ || !open_.empty(); });
        pause = shortest;
        continue;
      }
      pause = open_.size() < before ? shortest : std::min(2 * pause, longest);
      lock.unlock();
      std::this_thread::sleep_for(pause);
      lock.lock();
    }
  }

  /// To be called by the thread that may use MPI.
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
  std::size_t rank_ = 0, size_ = 1;
  std::unordered_map<Request, Transfer> requests_;
  Request last_ = 0;
  std::deque<Request> open_;  ///< transfers of gradients and parameters, in the order of their begin
  SendQueue queue_;           ///< messages of parameters
  bool ends_ = false;
  std::condition_variable_any changed_;  ///< `open_` or `ends_`
  std::thread thread_;
};

}  // namespace
}  // namespace tapestry

extern "C" {

[[gnu::visibility("default")]] extern const char* const tapestry_plugin_version;
const char* const tapestry_plugin_version = TAPESTRY_VERSION;

[[gnu::visibility("default")]] tapestry::Transport* tapestry_join_processes() {
  return new tapestry::MpiTransport();
}
}
