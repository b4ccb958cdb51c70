#include "train/loop/step_computer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/train/error_text.h"
#include "tests/train/tiny_run.h"
#include "train/base/error.h"
#include "train/loop/step_time.h"
#include "train/tasks/data_source.h"
#include "train/tasks/task_data.h"

namespace tapestry {
namespace {

using test::tiny_config;
using test::tiny_steps;

/// A run in memory before its first step.
struct NewRun {
  explicit NewRun(const Config& config = tiny_config())
      : corpus(load_corpus(config.data)), computer(config, corpus) {}

  /// The next step, computed but not applied.
  RunStep computed_step() {
    RunStep step = computer.next_step(false);
    computer.compute(step);
    return step;
  }

  std::span<float> values(const std::string& parameter) {
    Tensor tensor = computer.model().parameters.find(parameter)->tensor;
    return tensor.mutable_values<float>();
  }

  Corpus corpus;
  StepComputer computer;
};

/// Whether two snapshots have the same weights.
bool have_equal_weights(const ArrayStore& a, const ArrayStore& b) {
  return std::ranges::all_of(a, [&](const auto& array) {
    return !array.first.starts_with(parameters_group) || b.at(array.first) == array.second;
  });
}

TEST_CASE("applied steps end with the weights of a run") {
  test::TinyRun run;
  run.train(tiny_config());
  NewRun again;
  for (std::size_t i = 0; i < tiny_steps; ++i) again.computer.apply(again.computed_step());
  CHECK(again.computer.step() == tiny_steps);
  CHECK(have_equal_weights(again.computer.snapshot(), run.snapshot(tiny_steps)));
}

TEST_CASE("a run continues after a step that was applied outside of it") {
  test::TinyRun whole, run;
  const Config config = tiny_config();
  whole.train(config);
  const Corpus corpus = load_corpus(config.data);
  Trainer trainer(config, corpus, run.directory(), run.progress());
  time_step(trainer.computer());
  CHECK(trainer.step() == 1);
  trainer.run();
  CHECK(run.metrics() == whole.metrics());
  CHECK(have_equal_weights(run.snapshot(tiny_steps), whole.snapshot(tiny_steps)));
}

TEST_CASE("a step that is abandoned changes no state and can be computed again") {
  NewRun run;
  run.computer.apply(run.computed_step());
  const ArrayStore before = run.computer.snapshot();
  const RunStep abandoned = run.computed_step();
  CHECK(run.computer.snapshot() == before);
  const RunStep step = run.computed_step();
  CHECK(step.number == 2);
  CHECK(step.position == abandoned.position);
  CHECK(step.next == abandoned.next);
  CHECK(step.loss.mean == abandoned.loss.mean);
  CHECK(step.gradient_norm == abandoned.gradient_norm);
}

TEST_CASE("a skipped step is counted and leaves the weights as they are") {
  NewRun run;
  const ArrayStore before = run.computer.snapshot();
  const RunStep step = run.computed_step();
  run.computer.skip(step);
  CHECK(run.computer.step() == 1);
  CHECK(run.computer.next_step(false).position == step.next);
  CHECK(have_equal_weights(run.computer.snapshot(), before));
}

TEST_CASE("a step can be applied or skipped once, as the next step of the state") {
  NewRun run;
  const RunStep step = run.computed_step();
  run.computer.apply(step);
  const ArrayStore before = run.computer.snapshot();
  CHECK_THROWS_AS(run.computer.apply(step), std::logic_error);
  CHECK_THROWS_AS(run.computer.skip(step), std::logic_error);
  CHECK(run.computer.snapshot() == before);
}

TEST_CASE("a step has the learning rate of its number and the clip factor of its norm") {
  Config config = tiny_config();
  config.train.clip_norm = 0.05;
  NewRun run(config);
  for (std::uint64_t number = 1; number <= 2; ++number) {
    const RunStep step = run.computed_step();
    CHECK(step.number == number);
    CHECK(step.learning_rate == make_schedule(config.schedule)->learning_rate(number));
    REQUIRE(step.gradient_norm > 0.05);
    CHECK(step.clip_factor == 0.05 / step.gradient_norm);
    run.computer.apply(step);
  }
}

TEST_CASE("a step with batches of its own leaves the position in the data") {
  NewRun run;
  run.computer.apply(run.computed_step());
  const BatchPosition position = run.computer.state().position;
  const BatchRules rules = batch_rules(tiny_config(), run.corpus.target_vocabulary.size());
  std::vector<Batch> batches{
      make_batch(run.corpus.training(), std::array<std::size_t, 1>{0}, rules)};
  CHECK(time_step(run.computer, std::move(batches)).targets > 0);
  CHECK(run.computer.step() == 2);
  CHECK(run.computer.state().position == position);
}

TEST_CASE("a step is finite if loss and gradient are, and is not timed otherwise") {
  NewRun run;
  CHECK(run.computed_step().is_finite());
  // Values of 0 keep the huge weight behind them out of the loss, and not out of the gradient.
  std::ranges::fill(run.values("decoder.layers.0.self_attn.v_proj.weight"), 0.0f);
  std::ranges::fill(run.values("decoder.layers.0.self_attn.v_proj.bias"), 0.0f);
  run.values("decoder.layers.0.self_attn.out_proj.weight")[0] = 3e38f;
  for (float& value : run.values("output.weight")) value *= 1e6f;
  const RunStep step = run.computed_step();
  CHECK(std::isfinite(step.loss.mean));
  CHECK_FALSE(std::isfinite(step.gradient_norm));
  CHECK_FALSE(step.is_finite());

  const ArrayStore before = run.computer.snapshot();
  const std::string text = test::error_text<NumericError>([&] { time_step(run.computer); });
  CHECK(text.starts_with("step 1: the loss is "));
  CHECK(text.find(" and the norm of the gradient ") != std::string::npos);
  CHECK(run.computer.snapshot() == before);
}

}  // namespace
}  // namespace tapestry
