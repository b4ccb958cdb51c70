// SPDX-License-Identifier: BSD-3-Clause
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

#include "autograd/ops/elementwise.h"
#include "autograd/ops/losses.h"
#include "autograd/tape.h"
#include "data/batch_schedule.h"
#include "data/text/vocabulary.h"
#include "optim/optimizer.h"
#include "tests/support/values.h"
#include "tests/train/error_text.h"
#include "tests/train/tiny_run.h"
#include "train/base/error.h"
#include "train/inference/batch_tensors.h"
#include "train/loop/step_time.h"
#include "train/tasks/data_source.h"
#include "train/tasks/task.h"
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

TEST_CASE("applying all steps gives the same weights as a run") {
  test::TinyRun run;
  run.train(tiny_config());
  NewRun again;
  for (std::size_t i = 0; i < tiny_steps; ++i) again.computer.apply(again.computed_step());
  CHECK(again.computer.step() == tiny_steps);
  CHECK(have_equal_weights(again.computer.snapshot(), run.snapshot(tiny_steps)));
}

TEST_CASE("a run continues after a step that was applied outside of the run") {
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

TEST_CASE("a skipped step is counted and leaves the weights unchanged") {
  NewRun run;
  const ArrayStore before = run.computer.snapshot();
  const RunStep step = run.computed_step();
  run.computer.skip(step);
  CHECK(run.computer.step() == 1);
  CHECK(run.computer.next_step(false).position == step.next);
  CHECK(have_equal_weights(run.computer.snapshot(), before));
}

TEST_CASE("a step can be applied or skipped only once, and only as the next step of the state") {
  NewRun run;
  const RunStep step = run.computed_step();
  run.computer.apply(step);
  const ArrayStore before = run.computer.snapshot();
  CHECK_THROWS_AS(run.computer.apply(step), std::logic_error);
  CHECK_THROWS_AS(run.computer.skip(step), std::logic_error);
  CHECK(run.computer.snapshot() == before);
}

TEST_CASE("a step with custom batches does not change the position in the data") {
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

TEST_CASE("a step is finite if its loss and gradient are finite, and only finite steps are timed") {
  NewRun run;
  CHECK(run.computed_step().is_finite());
  // The inputs of the huge weight are 0, so the weight affects the gradient but not the loss.
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

constexpr std::size_t steps = 3;
constexpr std::size_t warmup = 4;
constexpr double peak = 0.1;
constexpr double alpha = 0.2;
constexpr double max_norm = 0.05;

/// A config with everything that affects a step: dropout, label smoothing, accumulation, a clip
/// norm that every gradient exceeds and a learning rate that changes in each step.
Config config_of_all() {
  Config config = test::tiny_config();
  // Adam would amplify rounding errors of zero gradients, since it divides gradients by their size.
  config.optimizer = {.kind = OptimizerKind::sgd, .momentum = 0.9};
  config.train.clip_norm = max_norm;
  config.schedule = {
      .kind = ScheduleKind::linear_warmup, .learning_rate = peak, .warmup_steps = warmup};
  config.train.label_smoothing = alpha;
  config.train.dtype = DType::float64;
  config.train.steps = steps;
  return config;
}

/// Adds the gradients of this batch's contribution to the mean loss over `tokens` target tokens.
void add_gradients(const Model& model, const Batch& batch, std::size_t tokens, const Mode& mode) {
  Tape tape;
  const Tensor logits = (*model.network)(network_input(batch, model.parameters.dtype()), mode);
  const Tensor mean =
      cross_entropy(logits, label_ids(batch), {.ignored_id = no_label, .label_smoothing = alpha})
          .mean;
  tape.backward(
      scale(mean, static_cast<double>(batch.target_tokens) / static_cast<double>(tokens)));
}

/// The model after `steps` steps of two batches each.
Model trained_by_hand(const Config& config) {
  const Corpus corpus = load_corpus(config.data);
  Model model(network_maker(config, {.source = corpus.source_vocabulary.size(),
                                     .target = corpus.target_vocabulary.size()}),
              DType::float64, config.train.seed);
  const auto optimizer = make_optimizer(config.optimizer, model.parameters.list());
  BatchSchedule order(corpus.train, config.train.batch_size, config.train.seed);
  BatchPosition position;
  for (std::size_t step = 1; step <= steps; ++step) {
    const Batch first = make_batch(corpus.train, order.at(position));
    const BatchPosition next = order.after(position);
    const Batch second = make_batch(corpus.train, order.at(next));
    position = order.after(next);

    const std::size_t tokens = first.target_tokens + second.target_tokens;
    const RandomStream random = RandomStream(config.train.seed).named("dropout").at(step);
    model.parameters.zero_grad();
    add_gradients(model, first, tokens, Mode::training(random.at(0)));
    add_gradients(model, second, tokens, Mode::training(random.at(1)));

    const double norm = global_gradient_norm(model.parameters.list());
    REQUIRE(norm > max_norm);
    optimizer->step(peak * static_cast<double>(step) / warmup, max_norm / norm);
  }
  return model;
}

TEST_CASE("a step of the trainer consists of forward, mean loss, backward, clipping and update") {
  const Config config = config_of_all();
  test::TinyRun run;
  run.train(config);
  const ArrayStore found = run.snapshot(steps);
  const Model expected = trained_by_hand(config);
  double worst = 0.0;
  for (const auto& [name, tensor] : expected.parameters) {
    const auto a = found.get<double>("parameters/" + name);
    const auto b = test::values_of(tensor);
    REQUIRE(a.size() == b.size());
    for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
  }
  CHECK(worst < 1e-13);
}

}  // namespace
}  // namespace tapestry
