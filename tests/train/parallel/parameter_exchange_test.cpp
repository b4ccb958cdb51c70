#include "train/parallel/parameter_exchange.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "autograd/kernels/parallel.h"
#include "tests/train/parallel/local_network.h"
#include "train/error.h"
#include "train/parallel/parameter_shards.h"

namespace tapestry {
namespace {

using Channel = Transport::Channel;

constexpr std::size_t piece = kernels::elements_per_piece;
constexpr std::size_t everything = 1'000'000;
constexpr auto soon = std::chrono::milliseconds(5);

/// Three parameters, which are three buckets of two processes: in each, a process has 1, 2 or 3
/// pieces. All values are 0.
Parameters three_parameters() {
  Parameters parameters(DType::float32, 1);
  parameters.create("a", {2 * piece}, zeros_initializer());
  parameters.create("b", {4 * piece}, zeros_initializer());
  parameters.create("c", {6 * piece}, zeros_initializer());
  parameters.gather();
  return parameters;
}

/// Parameters and their shards, with one bucket for each parameter.
struct Process {
  explicit Process(ProcessGroup& process_group) : group(process_group) {
    shards.emplace(parameters, group, 1);
    own = shards->own();
    for (const NamedTensor& parameter : parameters) {
      memory.push_back(parameter.tensor.values<float>().data());
    }
  }

  Tensor tensor(std::size_t i) const { return parameters.list()[i].tensor; }

  /// Sets all values of the own shard.
  void set_own(float value) {
    for (std::size_t i = 0; i < parameters.list().size(); ++i) {
      std::ranges::fill(tensor(i).mutable_values<float>().subspan(own[i].begin, own[i].size()),
                        value);
    }
  }

  void update(float value) {
    shards->update([&] { set_own(value); });
  }

  /// Whether all values of a parameter are equal to `value`, when they are read.
  bool has(std::size_t i, float value) const {
    const auto values = tensor(i).values<float>();
    return std::ranges::count(values, value) == std::ssize(values);
  }

  /// A value of the other process that is in memory now.
  float received(std::size_t i) const {
    const std::size_t other = group.is_rank_0() ? tensor(i).size() - 1 : 0;
    return memory[i][other];
  }

  ProcessGroup& group;
  Parameters parameters = three_parameters();
  std::optional<ParameterShards> shards;
  std::vector<ElementRange> own;     ///< of the shard
  std::vector<const float*> memory;  ///< of the parameters
};

/// Runs two processes. Messages of parameters do not arrive at rank 0 until it is allowed.
void run_two(test::LocalNetwork& network, const std::function<void(Process&)>& rank_0,
             const std::function<void(Process&)>& rank_1) {
  network.allow(0, Channel::parameters, 0);
  test::run_processes(network, 2, [&](ProcessGroup& group) {
    Process process(group);
    (group.is_rank_0() ? rank_0 : rank_1)(process);
  });
}

/// Calls `action` soon, in a thread of its own, which ends with the object.
class Soon {
 public:
  explicit Soon(std::function<void()> action)
      : thread_([action = std::move(action)] {
          std::this_thread::sleep_for(soon);
          action();
        }) {}
  ~Soon() { thread_.join(); }
  Soon(const Soon&) = delete;
  Soon& operator=(const Soon&) = delete;

 private:
  std::thread thread_;
};

TEST_CASE("an update does not wait for the values of others, and reading waits for its bucket") {
  test::LocalNetwork network(2);
  const auto allow = [&](std::size_t messages) { network.allow(0, Channel::parameters, messages); };
  const auto read = [&](Process& process) {
    process.update(1.0F);
    for (std::size_t i = 0; i < 3; ++i) CHECK(process.received(i) == 0.0F);
    for (std::size_t i = 0; i < 3; ++i) {
      CAPTURE(i);
      std::atomic<bool> has_read = false;
      const Soon later([&] {
        allow(1);
        for (int n = 0; n < 400 && !has_read; ++n) std::this_thread::sleep_for(soon);
        if (!has_read) allow(everything);  // it is the message of another bucket
      });
      CHECK(process.has(i, 1.0F));
      has_read = true;
      if (i < 2) CHECK(process.received(i + 1) == 0.0F);
    }
    allow(everything);
  };
  run_two(network, read, [](Process& process) { process.update(1.0F); });
}

TEST_CASE("the bucket of the first parameters is sent first") {
  test::LocalNetwork network(2);
  std::vector<std::size_t> sent;  // pieces that rank 0 sends, in this order
  network.on_send(Channel::parameters, [&](std::size_t rank, std::size_t bytes) {
    if (rank == 0) sent.push_back(bytes / sizeof(float) / piece);
  });
  test::run_processes(network, 2, [](ProcessGroup& group) { Process(group).update(1.0F); });
  CHECK(sent == std::vector<std::size_t>{1, 2, 3});
}

TEST_CASE("several threads may read a parameter at the same time before it has arrived") {
  test::LocalNetwork network(2);
  std::atomic<int> right = 0;
  const auto read = [&](Process& process) {
    process.update(1.0F);
    const Soon later([&] { network.allow(0, Channel::parameters, everything); });
    std::vector<std::thread> threads;
    for (std::size_t thread = 0; thread < 6; ++thread) {
      threads.emplace_back([&, thread] { right += process.has(thread % 3, 1.0F) ? 1 : 0; });
    }
    for (std::thread& thread : threads) thread.join();
  };
  run_two(network, read, [](Process& process) { process.update(1.0F); });
  CHECK(right == 6);
}

TEST_CASE("the end of shards waits until all values have arrived and are sent") {
  test::LocalNetwork network(2);
  const auto end = [&](Process& process) {
    process.update(1.0F);
    const Soon later([&] { network.allow(0, Channel::parameters, everything); });
    process.shards.reset();
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK(process.received(i) == 1.0F);
      CHECK(process.tensor(i).pending() == nullptr);
    }
  };
  run_two(network, end, [](Process& process) {
    process.update(1.0F);
    process.shards.reset();  // rank 0 still waits
    process.set_own(2.0F);
  });
}

TEST_CASE("an update begins when the one before is complete") {
  test::LocalNetwork network(2);
  network.delay(20);
  std::atomic<int> right = 0;
  test::run_processes(network, 2, [&](ProcessGroup& group) {
    Process process(group);
    for (const float value : {1.0F, 2.0F, 3.0F}) process.update(value);
    for (std::size_t i = 0; i < 3; ++i) right += process.has(i, 3.0F) ? 1 : 0;
  });
  CHECK(right == 6);
}

// The network refuses messages that change while they are sent.
TEST_CASE("changing a parameter waits until the values of the own shard are sent") {
  test::LocalNetwork network(2);
  std::atomic<bool> is_allowed = false;
  const auto receive = [&](Process& process) {
    process.update(1.0F);
    const Soon later([&] {
      is_allowed = true;
      network.allow(0, Channel::parameters, everything);
    });
    for (std::size_t i = 0; i < 3; ++i) CHECK(process.has(i, 1.0F));
  };
  run_two(network, receive, [&](Process& process) {
    process.update(1.0F);
    CHECK(process.has(2, 1.0F));  // reading does not wait for rank 0
    process.set_own(2.0F);
    CHECK(is_allowed);
  });
}

TEST_CASE("after an error of all processes, shards do not wait for what others have not begun") {
  test::LocalNetwork network(2);
  std::atomic<bool> has_ended = false;
  const auto meet_error = [&](Process& process) {
    process.update(1.0F);
    CHECK_THROWS_AS(process.group.together([] {}), PeerFailure);
    CHECK(process.group.has_failed());
    process.shards.reset();
    has_ended = true;
    CHECK(process.tensor(0).pending() == nullptr);
  };
  run_two(network, meet_error, [&](Process& process) {
    CHECK_THROWS_AS(process.group.together([] { throw UsageError("refused", ""); }), UsageError);
    for (int n = 0; n < 400 && !has_ended; ++n) std::this_thread::sleep_for(soon);
    CHECK(has_ended);
    if (has_ended) return;
    network.allow(0, Channel::parameters, everything);
    process.update(1.0F);  // rank 0 waits for it
  });
}

TEST_CASE("the time that a process waits for parameters is that of its group") {
  test::LocalNetwork network(2);
  network.delay(Channel::parameters, 1000);  // looks of a process that waits, 40 ms or more
  const auto wait = [&](Process& process) {
    network.allow(0, Channel::parameters, everything);
    process.update(1.0F);
    CHECK(process.group.waited().count() == 0);
    const auto started = std::chrono::steady_clock::now();
    CHECK(process.has(0, 1.0F));
    const auto passed = std::chrono::steady_clock::now() - started;
    CHECK(process.group.waited() > std::chrono::milliseconds(20));
    CHECK(process.group.waited() <= passed);
  };
  run_two(network, wait, [](Process& process) { process.update(1.0F); });
}

TEST_CASE("in a group of one process nothing is pending") {
  Process process(single_process());
  process.shards->update([] {});
  for (std::size_t i = 0; i < 3; ++i) CHECK(process.tensor(i).pending() == nullptr);
}

}  // namespace
}  // namespace tapestry
