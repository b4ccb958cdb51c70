// SPDX-License-Identifier: BSD-3-Clause
#include "train/parallel/gradient_sum.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <cmath>
#include <cstddef>
#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "autograd/gradient.h"
#include "autograd/kernels/parallel.h"
#include "autograd/operation.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/reductions.h"
#include "autograd/random.h"
#include "autograd/tape.h"
#include "layers/parameters.h"
#include "tests/support/pool_use.h"
#include "tests/train/parallel/local_network.h"
#include "train/parallel/bfloat16.h"
#include "train/parallel/gradient_tree.h"
#include "train/parallel/parameter_shards.h"

namespace tapestry {
namespace {

constexpr std::size_t values = 20'000;  // more than one piece of parallel work

/// Element i of the gradient of a micro-batch. The rounding of sums depends on their order.
float gradient_value(std::size_t micro_batch, std::size_t i) {
  return static_cast<float>(RandomStream(7).at(micro_batch).normal(i));
}

/// The sum of element i over the micro-batches [begin, end), by the definition of the tree.
float tree_sum(std::size_t begin, std::size_t end, std::size_t i) {
  if (end - begin == 1) return gradient_value(begin, i);
  std::size_t left = 1;
  while (2 * left < end - begin) left *= 2;
  return tree_sum(begin, begin + left, i) + tree_sum(begin + left, end, i);
}

Parameters two_parameters() {
  Parameters parameters(DType::float32, 1);
  parameters.create("a", {3}, zeros_initializer());
  parameters.create("b", {values}, zeros_initializer());
  parameters.gather();
  return parameters;
}

/// Sets the gradient of a parameter to gradient_value() of a micro-batch.
void set_gradient(const Parameters& parameters, const char* name, std::size_t micro_batch) {
  const Tensor tensor = parameters.find(name)->tensor;
  Tensor gradient = Tensor::zeros(tensor.shape(), tensor.dtype());
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    gradient.mutable_values<float>()[i] = gradient_value(micro_batch, i);
  }
  Gradient(tensor.slot().get()).add(gradient);
}

/// The elements of each parameter for which a process has the gradient.
std::vector<ElementRange> shard_of(const Parameters& parameters, const ProcessGroup& group) {
  return ShardLayout(parameters, group.size(), ShardLayout::default_bucket_bytes)
      .element_ranges(group.rank());
}

/// The number of gradient elements of a process that differ from tree_sum() of n micro-batches.
std::size_t count_different(const Parameters& parameters, std::size_t n,
                            const ProcessGroup& group) {
  std::size_t different = 0;
  const std::vector<ElementRange> shard = shard_of(parameters, group);
  for (std::size_t p = 0; p < shard.size(); ++p) {
    const Tensor gradient = parameters.list()[p].tensor.grad();
    for (std::size_t i = shard[p].begin; i < shard[p].end; ++i) {
      different += gradient.values<float>()[i] == tree_sum(0, n, i) ? 0 : 1;
    }
  }
  return different;
}

/// Sums the gradients of n micro-batches in a process.
void sum_gradients_of(Parameters& parameters, std::size_t n, ProcessGroup& group) {
  GradientSum sum(parameters, n, group);
  for (std::size_t m = sum.own().begin; m < sum.own().end; ++m) {
    set_gradient(parameters, "a", m);
    set_gradient(parameters, "b", m);
    sum.add();
  }
  sum.finish();
}

TEST_CASE("micro-batches are divided among processes without gaps and as evenly as possible") {
  for (std::size_t processes = 1; processes <= 9; ++processes) {
    for (std::size_t count = processes; count < 40; ++count) {
      std::size_t next = 0, min_size = count, max_size = 0;
      for (std::size_t rank = 0; rank < processes; ++rank) {
        const MicroBatches own = micro_batch_range(rank, processes, count);
        REQUIRE(own.begin == next);
        next = own.end;
        min_size = std::min(min_size, own.size());
        max_size = std::max(max_size, own.size());
      }
      CHECK(next == count);
      CHECK(max_size - min_size <= 1);
    }
  }
}

TEST_CASE("any number of processes sums gradients over the same binary tree") {
  const auto check = [](std::size_t processes, std::size_t n) {
    std::atomic<std::size_t> different = 0;
    test::run_processes(processes, [&](ProcessGroup& group) {
      Parameters parameters = two_parameters();
      sum_gradients_of(parameters, n, group);
      different += count_different(parameters, n, group);
    });
    CHECK_MESSAGE(different == 0, processes, " processes, ", n, " micro-batches");
  };
  for (std::size_t n = 1; n <= 17; ++n) check(1, n);
  for (const std::size_t processes : {2, 3, 4, 5, 7, 8}) {
    for (const std::size_t n : {8, 9, 11, 16}) check(processes, n);
  }
}

TEST_CASE(
    "a process receives from all other processes at the same time, from the start of a step") {
  constexpr std::size_t processes = 4;
  test::LocalNetwork network(processes);
  std::array<std::size_t, processes> receives{};
  test::run_processes(network, processes, [&](ProcessGroup& group) {
    Parameters parameters = two_parameters();
    GradientSum sum(parameters, 8, group);
    receives[group.rank()] = network.count_receives(group.rank());
    sum.abandon();
  });
  // One transfer for each part that is not empty, from three other processes.
  CHECK(receives == std::array<std::size_t, processes>{3, 3, 0, 3});
}

/// Returns a copy of x, and calls `note` in the backward pass.
struct Noted {
  static constexpr const char* name = "noted";
  std::function<void()> note;
  Tensor forward(const Tensor& x) { return x.detach().clone(); }
  void backward(const Tensor& dy, Gradient dx) const {
    note();
    dx.add(dy);
  }
};

constexpr std::size_t bucket_values = 2 * kernels::elements_per_piece;  // shards of two processes

/// Three parameters, each as large as a bucket.
Parameters three_buckets() {
  Parameters parameters(DType::float32, 1);
  for (const char* name : {"a", "b", "c"}) {
    parameters.create(name, {bucket_values}, normal_initializer(1.0));
  }
  parameters.gather();
  return parameters;
}

/// The sum over the elements of the product of the parameters `names`. The backward pass notes
/// "backward of NAME" before it computes the gradient of a parameter.
Tensor noted_product(const Parameters& parameters, const std::vector<const char*>& names,
                     const std::function<void(const std::string&)>& note) {
  Tensor y = Tensor::full({bucket_values}, 1.0, DType::float32);
  for (const char* name : names) {
    y = mul(y, parameters.find(name)->tensor);
    y = apply(Noted{[note, name] { note(std::string("backward of ") + name); }}, y);
  }
  return sum(y);
}

/// The events of rank 0 of two processes in its last micro-batch, in order: backward passes of
/// parameters, and sends. Messages arrive late.
std::vector<std::string> order_of_events(const std::vector<const char*>& names) {
  test::LocalNetwork network(2);
  network.delay(Transport::Channel::gradients, 50);
  std::vector<std::string> events;
  network.on_send(Transport::Channel::gradients, [&](std::size_t rank, std::size_t) {
    if (rank == 0) events.push_back("send");
  });
  test::run_processes(network, 2, [&](ProcessGroup& group) {
    Parameters parameters = three_buckets();
    GradientSum sum(parameters, 4, group, {.bucket_bytes = 1});
    for (std::size_t m = sum.own().begin; m < sum.own().end; ++m) {
      Tape tape;
      const Tensor loss = noted_product(parameters, names, [&](const std::string& event) {
        if (m == 1) events.push_back(event);
      });
      sum.follow(tape);
      tape.backward(loss);
      sum.add();
    }
    sum.finish();
  });
  return events;
}

TEST_CASE("gradients are sent during backward, after the last contribution to a tied parameter") {
  using Events = std::vector<std::string>;
  CHECK(order_of_events({"a", "b", "c"}) ==
        Events{"backward of c", "send", "backward of b", "send", "backward of a", "send"});
  CHECK(order_of_events({"b", "c", "a", "b"}) == Events{"backward of b", "backward of a",
                                                        "backward of c", "send", "backward of b",
                                                        "send", "send"});
}

/// The summed gradients in rank 0. Some micro-batches do not depend on all parameters.
std::vector<std::vector<double>> product_gradients(std::size_t micro_batches, ProcessGroup& group,
                                                   const ExchangeOptions& options) {
  Parameters parameters = three_buckets();
  GradientSum gradient_sum(parameters, micro_batches, group, options);
  for (std::size_t m = gradient_sum.own().begin; m < gradient_sum.own().end; ++m) {
    Tape tape;
    const std::vector<const char*> names =
        m % 2 == 0 ? std::vector{"a", "b", "a", "c"} : std::vector{"c", "a"};
    const Tensor y = noted_product(parameters, names, [](const std::string&) {});
    gradient_sum.follow(tape);
    tape.backward(y, Tensor::full({}, 1.1 + static_cast<double>(m), DType::float32));
    gradient_sum.add();
  }
  gradient_sum.finish();
  ParameterShards(parameters, group, options.bucket_bytes).gather_gradients();
  std::vector<std::vector<double>> all;
  for (const NamedTensor& each : parameters) all.push_back(each.tensor.grad().to_vector());
  return all;
}

/// Checks that any number of processes computes the same gradients as one process, with buckets of
/// several sizes.
void check_product_gradients(std::size_t micro_batches, bool bfloat16) {
  CAPTURE(micro_batches);
  CAPTURE(bfloat16);
  const auto expected = product_gradients(micro_batches, single_process(), {.bfloat16 = bfloat16});
  for (const std::size_t processes : {std::size_t{2}, std::size_t{3}, micro_batches}) {
    for (const std::size_t bucket_bytes : {1, 300'000, 4'000'000}) {
      test::LocalNetwork network(processes);
      network.delay(Transport::Channel::gradients, 3);
      std::vector<std::vector<double>> found;
      test::run_processes(network, processes, [&](ProcessGroup& group) {
        const auto own = product_gradients(micro_batches, group,
                                           {.bucket_bytes = bucket_bytes, .bfloat16 = bfloat16});
        if (group.is_rank_0()) found = own;
      });
      const bool is_equal = found == expected;
      CHECK_MESSAGE(is_equal, processes, " processes, buckets of ", bucket_bytes);
    }
  }
}

TEST_CASE(
    "gradients sent during backward, even in bfloat16, are bit-identical to one process's "
    "gradients") {
  for (const bool bfloat16 : {false, true}) {
    check_product_gradients(4, bfloat16);
    check_product_gradients(5, bfloat16);
  }
}

TEST_CASE(
    "bfloat16 rounds the sums that processes exchange, but not the sum of all micro-batches") {
  const auto exact = product_gradients(5, single_process(), {});
  const auto rounded = product_gradients(5, single_process(), {.bfloat16 = true});
  const auto noise = [](double x) { return std::abs(x) * 0x1p-8; };
  std::size_t different = 0;
  for (std::size_t p = 0; p < exact.size(); ++p) {
    for (std::size_t i = 0; i < exact[p].size(); ++i) {
      different += exact[p][i] == rounded[p][i] ? 0 : 1;
    }
  }
  CHECK(different > 3 * bucket_values / 2);
  // The gradient of a single micro-batch is not rounded. The gradients of two micro-batches are
  // rounded, but their sum is not.
  for (const std::size_t n : {1, 2}) {
    CAPTURE(n);
    Parameters parameters = two_parameters();
    GradientSum sum(parameters, n, single_process(), {.bfloat16 = true});
    for (std::size_t m = 0; m < n; ++m) {
      set_gradient(parameters, "b", m);
      sum.add();
    }
    sum.finish();
    const Tensor gradient = parameters.find("b")->tensor.grad();
    for (std::size_t i = 0; i < 100; ++i) {
      const float first = gradient_value(0, i), second = gradient_value(1, i);
      const float expected =
          n == 1 ? first : rounded_to_bfloat16(first) + rounded_to_bfloat16(second);
      CHECK(gradient.values<float>()[i] == expected);
      CHECK(std::abs(expected - (n == 1 ? first : first + second)) <= noise(first) + noise(second));
    }
  }
}

TEST_CASE("bfloat16 halves the bytes of gradients that processes send") {
  for (const std::size_t processes : {2, 3, 4}) {
    const auto sent = [&](bool bfloat16) {
      test::LocalNetwork network(processes);
      std::atomic<std::size_t> all = 0;
      network.on_send(Transport::Channel::gradients,
                      [&](std::size_t, std::size_t bytes) { all += bytes; });
      test::run_processes(network, processes, [&](ProcessGroup& group) {
        Parameters parameters = three_buckets();
        GradientSum sum(parameters, 8, group, {.bfloat16 = bfloat16});
        for (std::size_t m = sum.own().begin; m < sum.own().end; ++m) {
          parameters.list()[1].tensor.slot()->target<float>();
          sum.add();
        }
        sum.finish();
      });
      return all.load();
    };
    CHECK(sent(false) > 0);
    CHECK(2 * sent(true) == sent(false));
  }
}

TEST_CASE("a step that is cancelled in one process leaves no messages for the next step") {
  for (const std::size_t failing : {0, 1, 2}) {
    CAPTURE(failing);
    std::atomic<std::size_t> cancelled = 0, different = 0;
    test::run_processes(3, [&](ProcessGroup& group) {
      Parameters parameters = two_parameters();
      GradientSum given_up(parameters, 8, group, {.bucket_bytes = 1});
      const auto compute = [&] {
        for (std::size_t m = given_up.own().begin; m < given_up.own().end; ++m) {
          set_gradient(parameters, "a", m);
          set_gradient(parameters, "b", m);
          if (group.rank() == failing && m > 2) throw kernels::Cancelled();
          given_up.add();
        }
        if (group.rank() == failing) throw kernels::Cancelled();
        return std::string();
      };
      try {
        group.all_gather(compute, [&] { given_up.abandon(); });
      } catch (const kernels::Cancelled&) {
        ++cancelled;
      }
      parameters.zero_grad();
      sum_gradients_of(parameters, 8, group);
      different += count_different(parameters, 8, group);
    });
    CHECK(cancelled == 3);
    CHECK(different == 0);
  }
}

TEST_CASE("memory of transfers that an exception leaves pending is never reused") {
  test::LocalNetwork network(2);
  ProcessGroup group(network.end(1));
  const test::PoolUse use;
  {
    Parameters parameters = three_buckets();
    GradientSum sum(parameters, 3, group);  // rank 1 sends two nodes
    for (std::size_t m = sum.own().begin; m < sum.own().end; ++m) {
      for (const NamedTensor& parameter : parameters) parameter.tensor.slot()->target<float>();
      sum.add();
    }
  }
  const std::size_t bytes = use.bytes();
  constexpr double gradient = 3 * bucket_values * sizeof(float);
  // The process holds both nodes, and half of the node that it would receive.
  CHECK(static_cast<double>(bytes) > 0.95 * 2.5 * gradient);
  CHECK(static_cast<double>(bytes) < 1.05 * 2.5 * gradient);
}

TEST_CASE("a gradient that only one process has is in the shards of all processes") {
  std::atomic<std::size_t> right = 0;
  test::run_processes(3, [&](ProcessGroup& group) {
    Parameters parameters = two_parameters();
    GradientSum sum(parameters, 4, group);
    for (std::size_t m = sum.own().begin; m < sum.own().end; ++m) {
      if (m == 1) set_gradient(parameters, "a", m);
      sum.add();
    }
    sum.finish();
    const Tensor gradient = parameters.find("a")->tensor.grad();
    const ElementRange shard = shard_of(parameters, group)[0];
    const bool is_there = gradient.defined() && (shard.size() == 0 || gradient.values<float>()[2] ==
                                                                          gradient_value(1, 2));
    if (is_there && !parameters.find("b")->tensor.grad().defined()) ++right;
  });
  CHECK(right == 3);
}

TEST_CASE("a request to end during the exchange does not interrupt the sum") {
  for (const std::size_t processes : {1, 3}) {
    CAPTURE(processes);
    std::atomic<bool> end_requested = false;
    const kernels::CancellationScope scope(&end_requested);
    std::barrier all_have_computed(static_cast<std::ptrdiff_t>(processes));
    std::atomic<std::size_t> right = 0;
    test::run_processes(processes, [&](ProcessGroup& group) {
      Parameters parameters = two_parameters();
      GradientSum sum(parameters, 5, group);
      for (std::size_t m = sum.own().begin; m < sum.own().end; ++m) {
        set_gradient(parameters, "a", m);
        set_gradient(parameters, "b", m);
        sum.add();
      }
      all_have_computed.arrive_and_wait();
      end_requested = true;
      sum.finish();
      if (count_different(parameters, 5, group) == 0) ++right;
    });
    CHECK(right == processes);
    CHECK_THROWS_AS(kernels::throw_if_cancelled(), kernels::Cancelled);
  }
}

TEST_CASE("a micro-batch without a gradient of a parameter adds nothing to its sum") {
  Parameters parameters = two_parameters();
  GradientSum sum(parameters, 4, single_process());
  for (std::size_t m = 0; m < 4; ++m) {
    if (m == 1 || m == 2) set_gradient(parameters, "a", m);
    sum.add();
  }
  sum.finish();
  const Tensor gradient = parameters.find("a")->tensor.grad();
  REQUIRE(gradient.defined());
  CHECK(gradient.values<float>()[2] == gradient_value(1, 2) + gradient_value(2, 2));
  CHECK_FALSE(parameters.find("b")->tensor.grad().defined());
}

TEST_CASE("a sum of n micro-batches holds at most log2(n) copies of the gradient") {
  constexpr std::size_t bytes = (values + 3) * sizeof(float);
  for (const auto& [n, copies] : std::vector<std::pair<std::size_t, std::size_t>>{
           {1, 0}, {2, 1}, {3, 1}, {4, 2}, {8, 3}, {9, 3}, {16, 4}}) {
    Parameters parameters = two_parameters();
    set_gradient(parameters, "a", 0);
    set_gradient(parameters, "b", 0);
    parameters.zero_grad();
    const test::PoolUse use;
    GradientSum sum(parameters, n, single_process());
    for (std::size_t m = 0; m < n; ++m) {
      for (const NamedTensor& parameter : parameters) parameter.tensor.slot()->target<float>();
      sum.add();
    }
    sum.finish();
    // The division rounds down because lists of parameters also need a little memory.
    CHECK(use.peak() / bytes == copies);
  }
}

TEST_CASE("a sum of several processes holds received parts and no copy of the local gradient") {
  constexpr std::size_t processes = 4;
  test::LocalNetwork network(processes);
  std::vector<Parameters> parameters;
  std::deque<ProcessGroup> groups;
  for (std::size_t rank = 0; rank < processes; ++rank) {
    parameters.push_back(three_buckets());
    groups.emplace_back(network.end(rank));
  }
  const test::PoolUse use;
  std::deque<GradientSum> sums;
  for (std::size_t rank = 0; rank < processes; ++rank) {
    sums.emplace_back(parameters[rank], processes, groups[rank]);
    for (const NamedTensor& parameter : parameters[rank]) parameter.tensor.slot()->target<float>();
    sums.back().add();
  }
  const std::size_t bytes = use.bytes();
  // Each process holds (p - 1) / p of the gradient.
  const double expected = static_cast<double>(processes - 1) * 3 * bucket_values * sizeof(float);
  CHECK(static_cast<double>(bytes) > 0.95 * expected);
  CHECK(static_cast<double>(bytes) < 1.05 * expected);
  std::vector<std::thread> threads;
  for (GradientSum& sum : sums) threads.emplace_back([&sum] { sum.abandon(); });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace tapestry
