// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/train/tiny_run.h"
#include "train/checkpoint/metrics.h"
#include "train/models/trained_model.h"
#include "train/tasks/task.h"
#include "train/tasks/task_data.h"

/// Tests train.ema_decay: a run validates, saves and uses the average of its weights.
namespace tapestry {
namespace {

using test::tiny_config;
using test::tiny_steps;
using test::TinyRun;

const std::string weight = "output.weight";

Config averaged_config(std::size_t steps = tiny_steps) {
  Config config = tiny_config();
  config.train.ema_decay = 0.6;
  config.train.save_every = 1;
  config.train.keep_last = 100;
  config.train.steps = steps;
  return config;
}

TEST_CASE("the averages of a run follow its weights and do not change them") {
  TinyRun run, plain;
  run.train(averaged_config());
  Config config = averaged_config();
  config.train.ema_decay = 0.0;
  plain.train(config);
  CHECK(run.snapshot(tiny_steps).at("parameters/" + weight) ==
        plain.snapshot(tiny_steps).at("parameters/" + weight));
  CHECK_FALSE(plain.snapshot(tiny_steps).contains("average/" + weight));

  const auto values = [&](std::uint64_t step, const std::string& group) {
    const ArrayStore snapshot = run.snapshot(step);
    const auto all = snapshot.get<float>(group + weight);
    return std::vector<double>(all.begin(), all.end());
  };
  std::vector<double> mean = values(1, "average/");
  for (std::uint64_t step = 2; step <= tiny_steps; ++step) {
    const double t = static_cast<double>(step), d = std::min(0.6, (1 + t) / (10 + t));
    const std::vector<double> now = values(step, "parameters/"), found = values(step, "average/");
    double error = 0;
    for (std::size_t i = 0; i < now.size(); ++i) {
      mean[i] = d * mean[i] + (1 - d) * now[i];
      error = std::max(error, std::abs(mean[i] - found[i]));
    }
    CHECK(error < 1e-6);
    CHECK(now != found);
  }
}

TEST_CASE("a run with averages that is stopped and resumed ends with the same bytes") {
  TinyRun whole;
  whole.train(averaged_config());
  for (const std::size_t stop : {1, 5, 8}) {
    TinyRun run;
    run.train(averaged_config(stop));
    run.train(averaged_config());
    CHECK(run.checkpoint_bytes(tiny_steps) == whole.checkpoint_bytes(tiny_steps));
    CHECK(run.metrics() == whole.metrics());
  }
}

TEST_CASE("validation and commands use the averages") {
  TinyRun run;
  const Config config = averaged_config();
  run.train(config);
  const ArrayStore end = run.snapshot(tiny_steps);
  const TrainedModel trained = load_model(end);
  const auto found = trained.model->parameters.find(weight)->tensor.values<float>();
  CHECK(std::ranges::equal(found, end.get<float>("average/" + weight)));

  const Corpus corpus = load_corpus(config.data);
  const EvaluationSet set{
      .examples = corpus.validation, .target_texts = {}, .codec = trained.codec};
  const Scores scores = find_task(config).evaluate(
      *trained.model, config, batch_rules(config, corpus.target_vocabulary.size()), set, 0);
  const auto bytes = run.metrics();
  const std::string table(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  MetricsTable expected;
  expected.add_validation(tiny_steps, 4, scores);
  const std::string row = expected.csv().substr(expected.csv().find('\n') + 1);
  const std::string loss = row.substr(0, row.find(',', row.find("validation,") + 12));
  CHECK_MESSAGE(table.find("\n" + loss) != std::string::npos, loss, " is not in\n", table);
}

TEST_CASE("averages that begin on resume start from the weights of the checkpoint") {
  TinyRun run;
  Config config = averaged_config(5);
  config.train.ema_decay = 0.0;
  run.train(config);
  run.train(averaged_config(6));
  const ArrayStore before = run.snapshot(5), after = run.snapshot(6);
  const auto old_values = before.get<float>("parameters/" + weight);
  const auto new_values = after.get<float>("parameters/" + weight);
  const auto averages = after.get<float>("average/" + weight);
  const double d = 7.0 / 16;
  for (std::size_t i = 0; i < averages.size(); ++i) {
    CHECK(averages[i] ==
          doctest::Approx(d * old_values[i] + (1 - d) * new_values[i]).epsilon(1e-5));
  }
}

}  // namespace
}  // namespace tapestry
