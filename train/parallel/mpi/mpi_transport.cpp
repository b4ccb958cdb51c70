#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <unordered_map>

#include "train/parallel/mpi/plugin.h"

namespace tapestry {
namespace {

/// Messages over point-to-point calls of MPI. MPI is used by one thread at a time
/// (MPI_THREAD_SERIALIZED), and never waits inside a call, so that a thread does not keep the
/// others from it.
class MpiTransport final : public Transport {
 public:
  MpiTransport() {
    int level = 0;
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level), "MPI_Init_thread");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (level < MPI_THREAD_SERIALIZED) fail("this MPI does not support several threads");
    int rank = 0, size = 0;
    check(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
    check(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
    rank_ = static_cast<std::size_t>(rank);
    size_ = static_cast<std::size_t>(size);
  }

  /// MPI_Finalize waits for the other processes.
  ~MpiTransport() override {
    const std::lock_guard lock(mutex_);
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
    return keep(request);
  }

  Request start_receive(std::size_t from, Channel channel, std::span<std::byte> bytes) override {
    const std::lock_guard lock(mutex_);
    MPI_Request request{};
    check(MPI_Irecv(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, static_cast<int>(from),
                    static_cast<int>(channel), MPI_COMM_WORLD, &request),
          "MPI_Irecv");
    return keep(request);
  }

  bool is_done(Request request) override {
    const std::lock_guard lock(mutex_);
    const auto found = requests_.find(request);
    int done = 0;
    check(MPI_Test(&found->second, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done != 0) requests_.erase(found);
    return done != 0;
  }

  [[noreturn]] void abort(int code) override {
    MPI_Abort(MPI_COMM_WORLD, code);
    std::_Exit(code);
  }

 private:
  Request keep(MPI_Request request) {
    requests_.emplace(++last_, request);
    return last_;
  }

  [[noreturn]] void fail(const char* what) {
    std::fprintf(stderr, "tapestry: error: MPI: rank %zu: %s\n", rank_, what);
    abort(9);
  }

  void check(int error, const char* call) {
    if (error == MPI_SUCCESS) return;
    char text[MPI_MAX_ERROR_STRING + 1] = "";
    int length = 0;
    MPI_Error_string(error, text, &length);
    std::fprintf(stderr, "tapestry: error: %s: rank %zu: %s\n", call, rank_, text);
    abort(9);
  }

  std::mutex mutex_;
  std::size_t rank_ = 0, size_ = 1;
  std::unordered_map<Request, MPI_Request> requests_;
  Request last_ = 0;
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
