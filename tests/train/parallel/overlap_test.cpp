#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>

#include "tests/train/parallel/local_network.h"
#include "tests/train/tiny_run.h"
#include "train/loop/step_computer.h"

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

}  // namespace
}  // namespace tapestry
