// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "autograd/kernels/parallel.h"
#include "autograd/tape.h"
#include "tests/train/parallel/local_network.h"
#include "tests/train/tiny_run.h"
#include "train/loop/step.h"
#include "train/loop/validator.h"
#include "train/parallel/bfloat16.h"

/// Tests interrupted steps and validations of several processes, and the messages that a step sends
/// while it computes gradients.
namespace tapestry {
namespace {

/// A config with several buckets of parameters, and with averages of the parameters.
Config config_of_several_buckets() {
  Config config = test::tiny_config();
  config.model.d_ff = 2500;
  config.train.bucket_size = 0.01;
  config.train.ema_decay = 0.7;
  return config;
}

void take_step(StepComputer& computer) {
  RunStep step = computer.next_step(false);
  computer.compute(step);
  computer.apply(step);
}

using Training = std::function<void(StepComputer& computer, ProcessGroup& group)>;

/// Trains in two processes whose gradients arrive late. Returns the state of each process.
std::vector<std::string> states_of_two(const Config& config, const Corpus& corpus,
                                       const Training& train) {
  test::LocalNetwork network(2);
  network.delay(Transport::Channel::gradients, 50);
  std::vector<std::string> states(2);
  test::run_processes(network, 2, [&](ProcessGroup& group) {
    StepComputer computer(config, corpus, group);
    train(computer, group);
    states[group.rank()] = computer.state_text();
  });
  return states;
}

/// Two copies of the state after training in one process, for comparison with states_of_two().
std::vector<std::string> states_of_one(const Config& config, const Corpus& corpus,
                                       const Training& train) {
  StepComputer computer(config, corpus);
  train(computer, single_process());
  return {2, computer.state_text()};
}

/// Cancels a step after the first operation of its forward pass.
class CancelsForward : public TapeObserver {
 public:
  void forward_ran(const RecordedCall&) override { throw kernels::Cancelled(); }
  void backward_ran(const GradientSlot&, const Tensor&) override {}
};

TEST_CASE("a step that one process cancels can be computed again") {
  const Config config = config_of_several_buckets();
  const Corpus corpus = load_corpus(config.data);
  const auto interrupted = [](StepComputer& computer, ProcessGroup& group) {
    take_step(computer);
    RunStep step = computer.next_step(false);
    const BatchObservers cancels = [](std::size_t) { return std::make_unique<CancelsForward>(); };
    CHECK_THROWS_AS(computer.compute(step, group.rank() == 1 ? cancels : nullptr),
                    kernels::Cancelled);
    computer.compute(step);
    computer.apply(step);
  };
  const auto whole = [](StepComputer& computer, ProcessGroup&) {
    take_step(computer);
    take_step(computer);
  };
  CHECK(states_of_two(config, corpus, interrupted) == states_of_one(config, corpus, whole));
}

TEST_CASE("a state can be restored between the steps of several processes") {
  const Config config = config_of_several_buckets();
  const Corpus corpus = load_corpus(config.data);
  StepComputer saved(config, corpus);
  take_step(saved);
  take_step(saved);
  const ArrayStore snapshot = saved.snapshot();
  const auto restore = [&](StepComputer& computer, ProcessGroup&) {
    take_step(computer);
    computer.restore(snapshot);
    take_step(computer);
  };
  const auto expected = states_of_one(config, corpus, restore);
  CHECK(expected.front().find("at step 3") != std::string::npos);
  CHECK(states_of_two(config, corpus, restore) == expected);
}

TEST_CASE("a cancelled validation with averages leaves the parameters unchanged") {
  const Config config = config_of_several_buckets();
  const Corpus corpus = load_corpus(config.data);
  const std::atomic<bool> cancel = true;
  const auto validate = [&](StepComputer& computer, ProcessGroup& group) {
    take_step(computer);
    const TextCodec codec =
        make_codec(config.data, corpus.source_vocabulary, corpus.target_vocabulary);
    Validator validator(computer.parts(), codec, computer.shards(), group, computer.time_use());
    CHECK_THROWS_AS(validator.score(&cancel), kernels::Cancelled);
  };
  const auto train = [](StepComputer& computer, ProcessGroup&) { take_step(computer); };
  CHECK(states_of_two(config, corpus, validate) == states_of_one(config, corpus, train));
}

/// Records when the backward pass of an operation has run.
class BackwardNotes : public TapeObserver {
 public:
  explicit BackwardNotes(std::string& events) : events_(events) {}
  void forward_ran(const RecordedCall&) override {}
  void backward_ran(const GradientSlot&, const Tensor&) override { events_ += 'b'; }

 private:
  std::string& events_;
};

TEST_CASE("a step sends gradients before its backward pass ends") {
  const Config config = config_of_several_buckets();
  const Corpus corpus = load_corpus(config.data);
  test::LocalNetwork network(2);
  std::string events;  // events in rank 0
  network.on_send(Transport::Channel::gradients, [&](std::size_t rank, std::size_t) {
    if (rank == 0) events += 's';
  });
  test::run_processes(network, 2, [&](ProcessGroup& group) {
    StepComputer computer(config, corpus, group);
    RunStep step = computer.next_step(false);
    std::string others;
    computer.compute(step, [&](std::size_t) {
      return std::make_unique<BackwardNotes>(group.is_rank_0() ? events : others);
    });
    computer.apply(step);
  });
  CHECK(std::ranges::count(events, 's') >= 4);
  CHECK(events.find('s') < events.rfind('b'));
}

TEST_CASE("bfloat16 rounds to the closest value of 8 significant bits, with ties to even") {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (const float exact :
       {0.0f, 1.0f, 1.5f, 255.0f, 0x1.fep-126f, 0x1p-133f, 0x1.fep127f, infinity}) {
    CHECK(std::bit_cast<std::uint32_t>(rounded_to_bfloat16(exact)) ==
          std::bit_cast<std::uint32_t>(exact));
    CHECK(std::bit_cast<std::uint32_t>(rounded_to_bfloat16(-exact)) ==
          std::bit_cast<std::uint32_t>(-exact));
  }
  for (const auto& [value, rounded] :
       {std::pair(0x1.004p0f, 0x1.00p0f), std::pair(0x1.01p0f, 0x1.00p0f),
        std::pair(0x1.010002p0f, 0x1.02p0f), std::pair(0x1.03p0f, 0x1.04p0f),
        std::pair(-0x1.03p0f, -0x1.04p0f), std::pair(0x1.ffp0f, 0x1p1f),
        std::pair(std::numeric_limits<float>::max(), infinity)}) {
    CHECK(rounded_to_bfloat16(value) == rounded);
  }
  CHECK(rounded_to_bfloat16(0x1.03p0) == 0x1.04p0);  // an argument of type double
  CHECK(to_bfloat16(-2.0f) == 0xc000);
  CHECK(std::isnan(rounded_to_bfloat16(std::numeric_limits<float>::quiet_NaN())));
  CHECK(std::isnan(rounded_to_bfloat16(std::bit_cast<float>(0x7f800001U))));
}

}  // namespace
}  // namespace tapestry
