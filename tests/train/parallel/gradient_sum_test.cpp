#include "train/parallel/gradient_sum.h"

#include <doctest/doctest.h>

#include <atomic>
#include <barrier>
#include <cstddef>
#include <utility>
#include <vector>

#include "autograd/gradient.h"
#include "autograd/kernels/parallel.h"
#include "autograd/random.h"
#include "layers/parameters.h"
#include "tests/train/parallel/local_network.h"
#include "train/parallel/parameter_shards.h"

namespace tapestry {
namespace {

constexpr std::size_t values = 20'000;  // more than one piece of parallel work

/// Element i of the gradient of a micro-batch; sums of them depend on their order.
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
  return parameters;
}

/// Sets the gradient of a parameter to that of a micro-batch.
void set_gradient(const Parameters& parameters, const char* name, std::size_t micro_batch) {
  const Tensor tensor = parameters.find(name)->tensor;
  Tensor gradient = Tensor::zeros(tensor.shape(), tensor.dtype());
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    gradient.mutable_values<float>()[i] = gradient_value(micro_batch, i);
  }
  Gradient(tensor.slot().get()).add(gradient);
}

/// The elements of each parameter whose gradient a process has.
std::vector<ElementRange> shard_of(const Parameters& parameters, const ProcessGroup& group) {
  const std::vector<std::size_t> bounds = shard_bounds(parameters, group.size());
  return ranges_between(parameters, bounds[group.rank()], bounds[group.rank() + 1]);
}

/// How many elements of the gradients of a process differ from those of the tree of n
/// micro-batches.
std::size_t count_different(const Parameters& parameters, std::size_t n,
                            const ProcessGroup& group) {
  std::size_t different = 0;
  const std::vector<ElementRange> shard = shard_of(parameters, group);
  for (std::size_t p = 0; p < shard.size(); ++p) {
    const Tensor gradient = parameters.list()[p].tensor.gradient();
    for (std::size_t i = shard[p].begin; i < shard[p].end; ++i) {
      different += gradient.values<float>()[i] == tree_sum(0, n, i) ? 0 : 1;
    }
  }
  return different;
}

/// The sum of n micro-batches in a process.
void sum_gradients(Parameters& parameters, std::size_t n, ProcessGroup& group) {
  GradientSum sum(parameters, n, group);
  for (std::size_t m = sum.own().begin; m < sum.own().end; ++m) {
    set_gradient(parameters, "a", m);
    set_gradient(parameters, "b", m);
    sum.add();
  }
  sum.finish();
}

TEST_CASE("gradients of micro-batches are summed over the binary tree") {
  for (std::size_t n = 1; n <= 17; ++n) {
    Parameters parameters = two_parameters();
    sum_gradients(parameters, n, single_process());
    CHECK_MESSAGE(count_different(parameters, n, single_process()) == 0, n);
  }
}

TEST_CASE("any number of processes sums gradients over the same binary tree") {
  for (const std::size_t processes : {2, 3, 4, 5, 7, 8}) {
    for (const std::size_t n : {8, 9, 11, 16}) {
      std::atomic<std::size_t> different = 0;
      test::run_processes(processes, [&, n](ProcessGroup& group) {
        Parameters parameters = two_parameters();
        sum_gradients(parameters, n, group);
        different += count_different(parameters, n, group);
      });
      CHECK_MESSAGE(different == 0, processes, " processes, ", n, " micro-batches");
    }
  }
}

TEST_CASE("a process receives from all others at the same time") {
  constexpr std::size_t processes = 4;
  test::LocalNetwork network(processes);
  test::run_processes(network, processes, [](ProcessGroup& group) {
    Parameters parameters(DType::float32, 1);
    parameters.create("a", {processes * kernels::elements_per_piece}, zeros_initializer());
    GradientSum sum(parameters, 8, group);
    for (std::size_t m = sum.own().begin; m < sum.own().end; ++m) {
      parameters.list()[0].tensor.slot()->target<float>();
      sum.add();
    }
    sum.finish();
  });
  for (std::size_t rank = 0; rank < processes; ++rank) {
    CHECK(network.count_receives_at_once(rank, processes - 1) == 1);
  }
}

TEST_CASE("a parameter that has a gradient in one process alone gets it in its shards") {
  std::atomic<std::size_t> right = 0;
  test::run_processes(3, [&](ProcessGroup& group) {
    Parameters parameters = two_parameters();
    GradientSum sum(parameters, 4, group);
    for (std::size_t m = sum.own().begin; m < sum.own().end; ++m) {
      if (m == 1) set_gradient(parameters, "a", m);
      sum.add();
    }
    sum.finish();
    const Tensor gradient = parameters.find("a")->tensor.gradient();
    const ElementRange shard = shard_of(parameters, group)[0];
    const bool is_there = gradient.defined() && (shard.size() == 0 || gradient.values<float>()[2] ==
                                                                          gradient_value(1, 2));
    if (is_there && !parameters.find("b")->tensor.gradient().defined()) ++right;
  });
  CHECK(right == 3);
}

TEST_CASE("a request to end that comes during the exchange leaves the sum whole") {
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

TEST_CASE("a micro-batch on which a parameter does not depend adds nothing to its gradient") {
  Parameters parameters = two_parameters();
  GradientSum sum(parameters, 4, single_process());
  for (std::size_t m = 0; m < 4; ++m) {
    if (m == 1 || m == 2) set_gradient(parameters, "a", m);
    sum.add();
  }
  sum.finish();
  const Tensor gradient = parameters.find("a")->tensor.gradient();
  REQUIRE(gradient.defined());
  CHECK(gradient.values<float>()[2] == gradient_value(1, 2) + gradient_value(2, 2));
  CHECK_FALSE(parameters.find("b")->tensor.gradient().defined());
}

TEST_CASE(
    "a sum of n micro-batches holds at most log2(n) copies of the gradient, and none for one") {
  constexpr std::size_t bytes = (values + 3) * sizeof(float);
  for (const auto& [n, copies] : std::vector<std::pair<std::size_t, std::size_t>>{
           {1, 0}, {2, 1}, {3, 1}, {4, 2}, {8, 3}, {9, 3}, {16, 4}}) {
    Parameters parameters = two_parameters();
    parameters.gather();
    set_gradient(parameters, "a", 0);
    set_gradient(parameters, "b", 0);
    parameters.clear_gradients();
    const std::size_t before = kernels::restart_memory_peak();
    GradientSum sum(parameters, n, single_process());
    for (std::size_t m = 0; m < n; ++m) {
      for (const NamedTensor& parameter : parameters) parameter.tensor.slot()->target<float>();
      sum.add();
    }
    sum.finish();
    const std::size_t peak = kernels::memory_statistics().peak_bytes_in_use - before;
    CHECK(peak / bytes == copies);  // a little more for lists of parameters
  }
}

}  // namespace
}  // namespace tapestry
