#include "tests/train/wiring/train_replay.h"

#include <algorithm>
#include <cmath>

#include "autograd/ops/losses.h"
#include "autograd/random.h"
#include "autograd/tape.h"
#include "data/batch_schedule.h"
#include "tests/support/values.h"
#include "train/inference/batch_tensors.h"
#include "train/tasks/task.h"
#include "train/tasks/task_data.h"

namespace tapestry::test {
namespace {

using test::values_of;

/// One step: gradients of the mean objective over all labels of its batches.
struct HandStep {
  Sums sums{};
  std::uint64_t epoch = 0;
  Values gradients{};
  double norm = 0.0;
};

HandStep gradients_of_step(const Config& config, const Corpus& corpus, BatchSchedule& order,
                           BatchPosition& position, std::uint64_t step, Model& model) {
  HandStep done{.epoch = position.epoch + 1};
  std::vector<Batch> batches;
  std::size_t labels = 0;
  for (std::size_t i = 0; i < config.train.accumulate; ++i) {
    batches.push_back(
        make_batch(corpus.train, order.at(position), rules_of(config, corpus, position.epoch)));
    labels += batches.back().target_tokens;
    position = order.after(position);
  }
  model.parameters.clear_gradients();
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const Mode mode =
        Mode::training(RandomStream(config.train.seed).named("dropout").at(step).at(i));
    Tape tape;
    const Tensor logits = (*model.network)(network_input(batches[i], config.train.dtype), mode);
    tape.backward(cross_entropy(logits, label_ids(batches[i]),
                                {.ignored_id = no_label,
                                 .label_smoothing = config.train.label_smoothing,
                                 .normalizer = labels})
                      .mean);
    done.sums.add(sums_of(values_of(logits), batches[i].labels, config.train.label_smoothing));
  }
  double squares = 0.0;
  for (const auto& [name, tensor] : model.parameters) {
    if (!tensor.gradient().defined()) continue;
    done.gradients[name] = values_of(tensor.gradient());
    for (const double g : done.gradients[name]) squares += g * g;
  }
  done.norm = std::sqrt(squares);
  return done;
}

/// The moving averages after so many steps.
void update_averages(Values& averages, const Values& values, double decay, std::uint64_t steps) {
  const auto t = static_cast<double>(steps);
  const double d = std::min(decay, (1 + t) / (10 + t));
  for (auto& [name, average] : averages) {
    const std::vector<double>& now = values.at(name);
    for (std::size_t i = 0; i < now.size(); ++i) average[i] = d * average[i] + (1 - d) * now[i];
  }
}

}  // namespace

Replay replay(const Config& config, const Corpus& corpus, const Values* from) {
  Model model = new_model(config, corpus);
  Replay run;
  Values values = from != nullptr ? *from : values_of_parameters(model);
  run.weights[0] = values;
  HandOptimizer optimizer(config.optimizer);
  HandFiles files(config.train);
  BatchSchedule order = make_batch_schedule(corpus, config);
  BatchPosition position;
  Sums since_log;
  Values averages = values;
  const auto best_value = [&](const MetricsRow& row) {  // smaller is better
    return config.train.best_metric == "loss" ? row.loss : -*row.accuracy;
  };
  double lowest = INFINITY;
  const auto due = [&](std::size_t every) { return run.steps % every == 0; };
  const std::size_t patience = config.train.patience;
  while (run.steps < config.train.steps &&
         (patience == 0 || run.validations_since_best < patience)) {
    set_values(model, values);
    HandStep step = gradients_of_step(config, corpus, order, position, run.steps + 1, model);
    ++run.steps;
    const double limit = config.train.clip_norm, rate = rate_of(config, run.steps);
    const double scale = limit > 0.0 && step.norm > limit ? limit / step.norm : 1.0;
    optimizer.step(model, values, step.gradients, rate, scale);
    set_values(model, values);
    if (config.train.dtype == DType::float32) values = values_of_parameters(model);
    run.weights[run.steps] = values;
    update_averages(averages, values, config.train.ema_decay, run.steps);
    since_log.add(step.sums);
    run.losses.push_back(step.sums.objective / static_cast<double>(step.sums.labels));
    const bool last = run.steps == config.train.steps;
    if (last || due(config.train.log_every)) {
      const auto labels = static_cast<double>(since_log.labels);
      run.rows.push_back({.step = run.steps,
                          .epoch = step.epoch,
                          .split = "train",
                          .loss = since_log.objective / labels,
                          .perplexity = std::exp(since_log.nll / labels),
                          .learning_rate = rate,
                          .gradient_norm = step.norm,
                          .tokens = since_log.labels});
      since_log = {};
    }
    bool best = false, kept = false;
    const bool validation_due = due(config.train.validate_every);
    if ((last || validation_due) && !corpus.validation.empty()) {
      if (config.train.ema_decay > 0) set_values(model, averages);
      MetricsRow row =
          scores_with(config, corpus, model, corpus.validation, config.train.exact_match_sequences);
      row.step = run.steps;
      row.epoch = step.epoch;
      run.rows.push_back(row);
      best = best_value(row) < lowest;
      if (validation_due) {
        run.validations_since_best = best ? 0 : run.validations_since_best + 1;
        kept = files.validate(run.steps, best_value(row));
      } else if (run.best_step) {
        files.keep(*run.best_step);
      }
      if (best) lowest = best_value(row);
      if (best) run.best_step = run.steps;
    }
    if (kept || due(config.train.save_every)) files.save(run.steps, run.best_step, true);
  }
  if (!files.has(run.steps)) files.save(run.steps, run.best_step, false);
  run.files = files.steps();
  return run;
}

}  // namespace tapestry::test
