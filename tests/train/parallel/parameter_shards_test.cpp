// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "autograd/gradient.h"
#include "autograd/kernels/parallel.h"
#include "optim/optimizer.h"
#include "optim/weight_average.h"
#include "tests/support/pool_use.h"
#include "tests/train/parallel/local_network.h"
#include "train/loop/non_finite.h"
#include "train/parallel/gradient_sum.h"
#include "train/parallel/parameter_shards.h"

namespace tapestry {
namespace {

constexpr std::size_t piece = kernels::elements_per_piece;
constexpr std::size_t micro_batches = 8;

/// A number in [-1, 1) that depends on all bits of i.
double noise(std::uint64_t i) {
  i = (i ^ (i >> 31U)) * 0x9e3779b97f4a7c15ULL;
  i = (i ^ (i >> 29U)) * 0xbf58476d1ce4e5b9ULL;
  return static_cast<double>(static_cast<std::int64_t>(i ^ (i >> 32U))) * 0x1p-63;
}

/// Parameters of different sizes, from less than one piece to several pieces and a remainder. One
/// parameter has two axes. One parameter is frozen, and another does not affect the loss.
Parameters some_parameters(DType dtype) {
  Parameters parameters(dtype, 1);
  const Initializer initializer = normal_initializer(0.1);
  parameters.create("small", {3}, initializer);
  parameters.create("long", {2 * piece + 700}, initializer);
  parameters.create("frozen", {piece + 11}, initializer);
  parameters.create("head.weight", {2, piece + 5}, initializer);
  parameters.create("unused", {100}, initializer);
  parameters.create("head.bias", {7}, initializer);
  parameters.gather();
  parameters.freeze("frozen");
  return parameters;
}

/// The gradients of a micro-batch.
void set_gradients(const Parameters& parameters, std::uint64_t step, std::size_t micro_batch) {
  std::uint64_t key = (step * micro_batches + micro_batch) << 32U;
  for (const NamedTensor& parameter : parameters) {
    const Tensor& tensor = parameter.tensor;
    if (tensor.is_frozen() || parameter.name == "unused") continue;
    dispatch(tensor.dtype(), [&]<class T>() {
      T* const gradient = tensor.slot()->template target<T>().data;
      for (std::size_t i = 0; i < tensor.size(); ++i) gradient[i] = static_cast<T>(noise(++key));
    });
  }
}

void sum_gradients(Parameters& parameters, std::uint64_t step, ProcessGroup& group,
                   std::size_t bucket_bytes = ShardLayout::default_bucket_bytes) {
  GradientSum sum(parameters, micro_batches, group, {.bucket_bytes = bucket_bytes});
  for (std::size_t m = sum.own().begin; m < sum.own().end; ++m) {
    set_gradients(parameters, step, m);
    sum.add();
  }
  sum.finish();
}

/// Options of a training run.
struct ShardedTraining {
  OptimizerOptions options{};
  double clip_norm = 0.0;
  double ema_decay = 0.0;
  DType dtype = DType::float32;
  std::vector<ParameterGroup> groups{};
  std::size_t bucket_bytes = ShardLayout::default_bucket_bytes;
};

/// Results of a training run.
struct Trained {
  std::vector<std::vector<double>> parameters;
  std::vector<std::vector<double>> averages;    ///< read after a swap with the parameters
  std::vector<std::vector<std::byte>> state{};  ///< whole tensors, only in rank 0
  double norm = 0.0;                            ///< norm of the last gradient

  bool operator==(const Trained&) const = default;
};

std::vector<std::vector<double>> values_of(const Parameters& parameters) {
  std::vector<std::vector<double>> all;
  for (const NamedTensor& each : parameters) all.push_back(each.tensor.to_vector());
  return all;
}

/// The whole tensors of a sharded state, in rank 0.
std::vector<std::vector<std::byte>> gathered(ParameterShards& shards, ProcessGroup& group,
                                             const Parameters& parameters,
                                             const std::vector<NamedTensor>& state,
                                             const std::vector<ElementRange>& ranges) {
  const std::size_t count = parameters.list().size();
  const std::size_t bytes = bytes_per_element(parameters.dtype());
  std::vector<std::vector<std::byte>> whole(state.size());
  for (std::size_t i = 0; i < state.size() && group.is_rank_0(); ++i) {
    whole[i].resize(parameters.list()[i % count].tensor.size() * bytes);
    dispatch(parameters.dtype(), [&]<class T>() {
      const auto own = std::as_bytes(state[i].tensor.values<T>());
      std::ranges::copy(
          own, whole[i].begin() + static_cast<std::ptrdiff_t>(ranges[i % count].begin * bytes));
    });
  }
  shards.gather_state(state, [&](std::size_t i) { return std::span(whole[i]); });
  return whole;
}

Trained train(const ShardedTraining& training, ProcessGroup& group) {
  constexpr std::uint64_t steps = 3;
  Parameters parameters = some_parameters(training.dtype);
  ParameterShards shards(parameters, group, training.bucket_bytes);
  const auto optimizer =
      make_optimizer(training.options, parameters.list(), training.groups, shards.own());
  std::optional<WeightAverage> average;
  if (training.ema_decay > 0.0) {
    average.emplace(parameters.list(), training.ema_decay, shards.own());
  }
  Trained trained;
  for (std::uint64_t step = 1; step <= steps; ++step) {
    parameters.zero_grad();
    sum_gradients(parameters, step, group, training.bucket_bytes);
    trained.norm = shards.gradient_norm();
    optimizer->step(0.01, clip_factor(trained.norm, training.clip_norm));
    if (average) average->update(step);
    shards.all_gather_parameters();
  }
  trained.parameters = values_of(parameters);
  trained.state = gathered(shards, group, parameters, optimizer->state(), optimizer->ranges());
  if (average) {
    for (auto& each : gathered(shards, group, parameters, average->state(), average->ranges())) {
      trained.state.push_back(std::move(each));
    }
    const auto swap = [&] {
      average->swap();
      shards.all_gather_parameters();
    };
    swap();
    trained.averages = values_of(parameters);
    swap();
    if (values_of(parameters) != trained.parameters) trained.averages.clear();
  }
  return trained;
}

/// Checks that training is bit-identical for any number of processes.
void check_training(const ShardedTraining& training) {
  const Trained expected = train(training, single_process());
  REQUIRE(std::isfinite(expected.norm));
  for (const std::size_t processes : {2, 3, 5, 8}) {
    CAPTURE(processes);
    std::vector<Trained> found(processes);
    test::run_processes(processes,
                        [&](ProcessGroup& group) { found[group.rank()] = train(training, group); });
    for (std::size_t rank = 0; rank < processes; ++rank) {
      CAPTURE(rank);
      CHECK(found[rank].norm == expected.norm);
      CHECK(found[rank].parameters == expected.parameters);
      CHECK(found[rank].averages == expected.averages);
    }
    CHECK(found[0].state == expected.state);
  }
}

TEST_CASE("sharded updates of each optimizer are bit-identical to updates in one process") {
  using enum OptimizerKind;
  SUBCASE("adam, with clipping and averages") {
    check_training(
        {.options = {.kind = adam, .weight_decay = 0.1}, .clip_norm = 0.5, .ema_decay = 0.9});
  }
  SUBCASE("adam, with several buckets") {
    check_training(
        {.options = {.kind = adam}, .clip_norm = 0.5, .ema_decay = 0.9, .bucket_bytes = 1});
  }
  SUBCASE("adamw, with groups of parameters") {
    check_training({.options = {.kind = adamw, .weight_decay = 0.1},
                    .groups = {{.path = "head", .learning_rate_factor = 10.0, .weight_decay = 0.3},
                               {.path = "long", .learning_rate_factor = 0.0}}});
  }
  SUBCASE("sgd, in float64") {
    check_training(
        {.options = {.kind = sgd, .weight_decay = 0.1}, .clip_norm = 2.0, .dtype = DType::float64});
  }
  SUBCASE("sgd with momentum, in float64") {
    check_training(
        {.options = {.kind = sgd, .momentum = 0.9}, .ema_decay = 0.99, .dtype = DType::float64});
  }
}

/// Parameters with `values` elements, most of them in matrices.
Parameters large_parameters(std::size_t values) {
  Parameters parameters(DType::float32, 1);
  parameters.create("bias", {101}, zeros_initializer());
  parameters.create("first", {values / 4}, zeros_initializer());
  parameters.create("second", {values - values / 4 - 101}, zeros_initializer());
  parameters.gather();
  return parameters;
}

TEST_CASE("the memory of optimizer state and averages is divided by the number of processes") {
  constexpr std::size_t values = 3'000'000;
  const Parameters parameters = large_parameters(values);
  for (const OptimizerKind kind : {OptimizerKind::adam, OptimizerKind::adamw, OptimizerKind::sgd}) {
    const std::size_t kinds = kind == OptimizerKind::sgd ? 2 : 3;  // includes the average
    for (const std::size_t processes : {1, 2, 4, 8}) {
      const ShardLayout layout(parameters, processes, ShardLayout::default_bucket_bytes);
      for (std::size_t rank = 0; rank < processes; ++rank) {
        const auto own = layout.element_ranges(rank);
        const test::PoolUse use;
        const auto optimizer =
            make_optimizer({.kind = kind, .momentum = 0.9}, parameters.list(), {}, own);
        const WeightAverage average(parameters.list(), 0.9, own);
        const auto bytes = static_cast<double>(use.bytes());
        const double equal =
            static_cast<double>(kinds * values * sizeof(float)) / static_cast<double>(processes);
        CHECK(bytes > 0.95 * equal);
        CHECK(bytes < 1.05 * equal);
      }
    }
  }
}

TEST_CASE("a step sends 2 (p - 1) / p times the size of the gradient") {
  constexpr std::size_t values = 64 * piece;
  for (const std::size_t processes : {2, 4, 8}) {
    const auto sent = test::run_processes(processes, [](ProcessGroup& group) {
      Parameters parameters = large_parameters(values);
      ParameterShards shards(parameters, group);
      const auto optimizer =
          make_optimizer({.kind = OptimizerKind::sgd}, parameters.list(), {}, shards.own());
      sum_gradients(parameters, 1, group);
      const double norm = shards.gradient_norm();
      optimizer->step(0.1, clip_factor(norm, 1.0));
      shards.all_gather_parameters();
    });
    const auto p = static_cast<double>(processes);
    const double min_bytes = 2 * (p - 1) / p * values * sizeof(float);
    const double mean =
        static_cast<double>(std::accumulate(sent.begin(), sent.end(), std::size_t{0})) / p;
    CHECK(mean > 0.95 * min_bytes);
    CHECK(mean < 1.05 * min_bytes);
    for (const std::size_t bytes : sent) CHECK(static_cast<double>(bytes) < 1.15 * min_bytes);
  }
}

TEST_CASE("a shard is sent as one message, and received from all processes at the same time") {
  constexpr std::size_t processes = 4;
  test::LocalNetwork network(processes);
  test::run_processes(network, processes, [](ProcessGroup& group) {
    Parameters parameters = some_parameters(DType::float32);
    ParameterShards shards(parameters, group);
    shards.all_gather_parameters();
  });
  for (std::size_t rank = 0; rank < processes; ++rank) {
    CHECK(network.count_receives_at_once(rank, processes - 1) == 1);
  }
}

TEST_CASE("rank 0 can collect the whole gradient") {
  Parameters one = some_parameters(DType::float32);
  sum_gradients(one, 1, single_process());
  test::run_processes(4, [&](ProcessGroup& group) {
    Parameters parameters = some_parameters(DType::float32);
    ParameterShards shards(parameters, group);
    sum_gradients(parameters, 1, group);
    shards.gather_gradients();
    if (!group.is_rank_0()) return;
    for (std::size_t i = 0; i < one.list().size(); ++i) {
      const Tensor expected = one.list()[i].tensor.grad();
      const Tensor gradient = parameters.list()[i].tensor.grad();
      REQUIRE(gradient.defined() == expected.defined());
      if (expected.defined()) CHECK(gradient.to_vector() == expected.to_vector());
    }
  });
}

TEST_CASE("all processes name the first non-finite moment, even if only one process has it") {
  std::vector<std::string> found(3);
  test::run_processes(3, [&](ProcessGroup& group) {
    Parameters parameters = some_parameters(DType::float32);
    ParameterShards shards(parameters, group);
    const auto optimizer = make_optimizer({}, parameters.list(), {}, shards.own());
    const std::vector<NamedTensor> state = optimizer->state();
    // The first moments are NaN in rank 1, the second moments in rank 2.
    const std::size_t kind = group.rank() == 2 ? 1 : 0;
    for (std::size_t i = 0; i < parameters.list().size() && !group.is_rank_0(); ++i) {
      Tensor tensor = state[kind * parameters.list().size() + i].tensor;
      std::ranges::fill(tensor.mutable_values<float>(), NAN);
    }
    found[group.rank()] = find_non_finite_state(parameters, *optimizer, group).value_or("");
  });
  CHECK(found[0] == "optimizer/first_moment/long has a value that is not finite");
  CHECK(found[1] == found[0]);
  CHECK(found[2] == found[0]);
}

// ---- The layout of the shards.

/// Parameters of different sizes: less than one piece, several pieces and a remainder, and two
/// axes.
Parameters parameters_of_five_sizes() {
  Parameters parameters(DType::float32, 1);
  parameters.create("small", {3}, zeros_initializer());
  parameters.create("long", {40 * piece + 700}, zeros_initializer());
  parameters.create("medium", {piece + 11}, zeros_initializer());
  parameters.create("head.weight", {2, 11 * piece + 5}, zeros_initializer());
  parameters.create("head.bias", {7}, zeros_initializer());
  return parameters;
}

TEST_CASE("buckets are whole parameters, from last to first, of at least the given size") {
  const Parameters parameters = parameters_of_five_sizes();
  const auto firsts = [&](std::size_t processes, std::size_t bytes) {
    const ShardLayout layout(parameters, processes, bytes);
    std::vector<std::size_t> found;
    for (const auto& bucket : layout.buckets()) found.push_back(bucket.first);
    return found;
  };
  CHECK(firsts(1, 1) == std::vector<std::size_t>{3, 2, 0});  // at least one piece per bucket
  CHECK(firsts(2, 22 * piece * sizeof(float)) == std::vector<std::size_t>{3, 0});
  CHECK(firsts(2, 23 * piece * sizeof(float)) == std::vector<std::size_t>{2, 0});
  CHECK(firsts(2, 1'000'000'000) == std::vector<std::size_t>{0});
  CHECK(firsts(23, 1) == std::vector<std::size_t>{2, 0});  // at least one piece per process
}

TEST_CASE("each element of each parameter is in one shard, and pieces are not divided") {
  const Parameters parameters = parameters_of_five_sizes();
  for (const std::size_t bytes : {1, 2'000'000}) {
    for (std::size_t processes = 1; processes <= 70; ++processes) {
      const ShardLayout layout(parameters, processes, bytes);
      std::vector<std::size_t> next(parameters.list().size(), 0);
      for (std::size_t rank = 0; rank < processes; ++rank) {
        const auto ranges = layout.element_ranges(rank);
        for (std::size_t i = 0; i < ranges.size(); ++i) {
          if (ranges[i].size() == 0) continue;
          CHECK(ranges[i].begin == next[i]);
          CHECK(ranges[i].begin % piece == 0);
          next[i] = ranges[i].end;
        }
      }
      for (std::size_t i = 0; i < next.size(); ++i) {
        CHECK(next[i] == parameters.list()[i].tensor.size());
      }
    }
  }
}

TEST_CASE("shards differ in size by at most one piece, for every size of buckets") {
  Parameters parameters(DType::float32, 1);
  for (std::size_t layer = 0; layer < 20; ++layer) {
    const std::string path = "layers." + std::to_string(layer);
    parameters.create(path + ".weight", {7 * piece + 1000 * layer}, zeros_initializer());
    parameters.create(path + ".bias", {100 + layer}, zeros_initializer());
  }
  for (const std::size_t bytes : {std::size_t{1}, 10 * piece, 100 * piece, 1000 * piece}) {
    for (const std::size_t processes : {2, 3, 5, 8, 13, 64}) {
      const ShardLayout layout(parameters, processes, bytes);
      for (std::size_t rank = 0; rank < processes; ++rank) {
        double size = 0.0;
        for (const ElementRange& range : layout.element_ranges(rank)) {
          size += static_cast<double>(range.size());
        }
        const auto equal =
            static_cast<double>(parameters.num_values()) / static_cast<double>(processes);
        CHECK(std::abs(size - equal) <= piece);
      }
    }
  }
}

TEST_CASE("a process's part of a bucket contains its values and the gaps between parameters") {
  Parameters parameters(DType::float32, 1);
  parameters.create("a", {3}, zeros_initializer());
  parameters.create("b", {piece + 5}, zeros_initializer());
  const ShardLayout layout(parameters, 2, 1);
  REQUIRE(layout.buckets().size() == 1);
  CHECK(layout.part(0, 0).begin == 0);
  CHECK(layout.part(0, 0).end == 64 + piece * sizeof(float));
  CHECK(layout.part(0, 1).begin == layout.part(0, 0).end);
  CHECK(layout.part(0, 1).size() == 5 * sizeof(float));
}

}  // namespace
}  // namespace tapestry
