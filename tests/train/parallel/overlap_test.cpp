#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "tests/train/parallel/local_network.h"
#include "tests/train/program.h"
#include "tests/train/tiny_run.h"
#include "train/recording/time_use_log.h"
#include "train/step_computer.h"
#include "train/trainer.h"

namespace tapestry {
namespace {

/// Notes when the backward of an operation has run.
class BackwardNotes : public TapeObserver {
 public:
  explicit BackwardNotes(std::string& events) : events_(events) {}
  void forward_ran(const RecordedCall&) override {}
  void backward_ran(const GradientSlot&, const Tensor&) override { events_ += 'b'; }

 private:
  std::string& events_;
};

TEST_CASE("a step sends gradients before its backward ends") {
  Config config = test::tiny_config();
  config.model.d_ff = 2500;
  config.train.bucket_size = 0.01;
  const Corpus corpus = load_corpus(config.data);
  test::LocalNetwork network(2);
  std::string events;  // of rank 0
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

constexpr std::size_t all_messages = 1'000'000;

/// Calls a function after each operation of forward.
class AfterOperations : public TapeObserver {
 public:
  explicit AfterOperations(std::function<void()> call) : call_(std::move(call)) {}
  void forward_ran(const RecordedCall&) override { call_(); }
  void backward_ran(const GradientSlot&, const Tensor&) override {}

 private:
  std::function<void()> call_;
};

TEST_CASE("a step begins forward when the first parameters of the update before have arrived") {
  Config config = test::tiny_config();
  config.model.d_ff = 2500;
  config.train.bucket_size = 0.01;
  config.train.ema_decay = 0.7;
  const Corpus corpus = load_corpus(config.data);
  test::LocalNetwork network(2);
  const auto allow = [&](std::size_t rank, std::size_t messages) {
    network.allow(rank, Transport::Channel::parameters, messages);
  };
  std::atomic<bool> has_ended = false, has_waited = false;
  std::thread rescue([&] {  // from waiting without end
    for (int i = 0; i < 1000 && !has_ended; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    if (has_ended) return;
    has_waited = true;
    for (const std::size_t rank : {0, 1}) allow(rank, all_messages);
  });
  test::run_processes(network, 2, [&](ProcessGroup& group) {
    allow(group.rank(), 1);
    StepComputer computer(config, corpus, group);
    for (int i = 0; i < 2; ++i) {
      RunStep step = computer.next_step(false);
      computer.compute(step, [&](std::size_t) {
        return std::make_unique<AfterOperations>([&, i] {
          if (i == 1) allow(group.rank(), all_messages);
        });
      });
      computer.apply(step);
    }
  });
  has_ended = true;
  rescue.join();
  CHECK_FALSE(has_waited);
}

/// With it, the parameters of an update arrive at least 40 ms after a process begins to wait.
constexpr std::size_t looks_for_parameters = 1000;
constexpr std::chrono::milliseconds least_wait(40);

TEST_CASE("forward does not count the time that it waits for parameters") {
  const Config config = test::tiny_config();
  const Corpus corpus = load_corpus(config.data);
  test::LocalNetwork network(2);
  network.delay(Transport::Channel::parameters, looks_for_parameters);
  test::run_processes(network, 2, [&](ProcessGroup& group) {
    StepComputer computer(config, corpus, group);
    RunStep first = computer.next_step(false);
    computer.compute(first);
    computer.apply(first);
    RunStep step = computer.next_step(first.batches);  // does not wait for the other process
    const auto before = group.waited();
    computer.compute(step);
    const auto waited = group.waited() - before;
    CHECK(waited >= least_wait);
    CHECK(step.loss.durations.exchange >= waited);
  });
}

TEST_CASE("the time that a validated step waits for parameters counts as exchange") {
  Config config = test::tiny_config();
  config.train.steps = 1;
  config.train.ema_decay = 0.7;
  const Corpus corpus = load_corpus(config.data);
  test::TinyRun run;
  test::LocalNetwork network(2);
  network.delay(Transport::Channel::parameters, looks_for_parameters);
  std::chrono::duration<double> waited{};
  test::run_processes(network, 2, [&](ProcessGroup& group) {
    RunDirectory directory(run.directory().path());
    Progress progress(nullptr, 0, config.train.steps);
    Trainer trainer(config, corpus, directory, progress, group);
    if (group.is_rank_0()) trainer.record_to(directory.path());
    trainer.run();
    if (group.is_rank_0()) waited = group.waited();
  });
  CHECK(waited >= least_wait);
  const auto processes = parse_time_use(test::read_text(run.directory().path() / "time_use.csv"));
  REQUIRE(processes.size() == 1);
  CHECK(processes[0].part(TimePart::exchange) >= 0.999 * waited.count());
}
}  // namespace
}  // namespace tapestry
