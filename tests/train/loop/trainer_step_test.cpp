#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/losses.h"
#include "autograd/tape.h"
#include "data/batch_schedule.h"
#include "data/text/vocabulary.h"
#include "optim/optimizer.h"
#include "tests/support/values.h"
#include "tests/train/tiny_run.h"
#include "train/inference/batch_tensors.h"
#include "train/tasks/task.h"

namespace tapestry {
namespace {

constexpr std::size_t steps = 3;
constexpr std::size_t warmup = 4;
constexpr double peak = 0.1;
constexpr double alpha = 0.2;
constexpr double longest = 0.05;

/// With everything that a step has to hand on: dropout, smoothing, accumulation, a limit that every
/// gradient exceeds and a rate that changes from step to step.
Config config_of_all() {
  Config config = test::tiny_config();
  // Adam would divide the gradient by its size, and with it what rounding leaves of a zero.
  config.optimizer = {.kind = OptimizerKind::sgd, .momentum = 0.9};
  config.train.clip_norm = longest;
  config.schedule = {
      .kind = ScheduleKind::linear_warmup, .learning_rate = peak, .warmup_steps = warmup};
  config.train.label_smoothing = alpha;
  config.train.dtype = DType::float64;
  config.train.steps = steps;
  return config;
}

/// Adds to the gradients those of this batch's share in the mean loss of `tokens` target tokens.
void add_gradients(const Model& model, const Batch& batch, std::size_t tokens, const Mode& mode) {
  Tape tape;
  const Tensor logits = (*model.network)(network_input(batch, model.parameters.dtype()), mode);
  const Tensor mean =
      cross_entropy(logits, label_ids(batch), {.ignored_id = no_label, .label_smoothing = alpha})
          .mean;
  tape.backward(
      scale(mean, static_cast<double>(batch.target_tokens) / static_cast<double>(tokens)));
}

/// Two batches each; the parameters afterwards.
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
    model.parameters.clear_gradients();
    add_gradients(model, first, tokens, Mode::training(random.at(0)));
    add_gradients(model, second, tokens, Mode::training(random.at(1)));

    const double norm = global_gradient_norm(model.parameters.list());
    REQUIRE(norm > longest);
    optimizer->step(peak * static_cast<double>(step) / warmup, longest / norm);
  }
  return model;
}

TEST_CASE("the trainer's steps are forward, mean loss, backward, clip and update") {
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
