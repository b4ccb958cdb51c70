// SPDX-License-Identifier: BSD-3-Clause
#include "train/plan/run_plan.h"

#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "autograd/kernels/parallel.h"
#include "tests/support/contains.h"
#include "tests/train/tiny_run.h"
#include "train/loop/step_time.h"
#include "train/system/cores.h"
#include "train/tasks/data_source.h"

namespace tapestry {
namespace {

using doctest::Approx;
using test::contains;
using test::tiny_config;

// ---- Limits.

/// A plan of 1,000 steps of 10 ms on two cores, without bottlenecks.
RunPlan good_plan() {
  RunPlan plan;
  plan.config.train.steps = 1000;
  plan.epoch = {
      .batches = 10, .examples = 640, .tokens = 6400, .positions = 12'000, .padding = 120};
  plan.memory.available = {.free = 1'000'000'000, .total = 2'000'000'000};
  plan.step = {.median = 0.01, .low = 0.009, .high = 0.012, .gradients = 0.009, .update = 0.001};
  plan.threads = {.set = 2,
                  .cores = 2,
                  .times = {{.threads = 1, .seconds = 0.018}, {.threads = 2, .seconds = 0.0098}}};
  plan.validations = {.count = 2, .scoring = 0.1, .decoding = 0.2, .decoded = 100};
  plan.checkpoints = {.bytes = 3'000'000, .files = 4, .free_disk = 1'000'000'000};
  plan.startup = 0.5;
  return plan;
}

TEST_CASE("the parts of a plan add up, and a plan without bottlenecks has no limits") {
  RunPlan plan = good_plan();
  CHECK(plan.total() == Approx(0.5 + 10.0 + 0.6));
  CHECK(plan.padding_share() == Approx(0.01));
  CHECK(plan.steps_per_epoch() == 10);
  CHECK(find_limits(plan).empty());
  plan.config.train.accumulate = 4;
  CHECK(plan.steps_per_epoch() == 3);
  plan.has_lengths = false;
  CHECK(plan.padding_share() == 0.0);
}

TEST_CASE("each limit has a threshold and names the key to change") {
  struct Row {
    const char* what;
    const char* change;
    void (*set)(RunPlan& plan);  ///< sets a value just beyond the threshold
    void (*unset)(RunPlan& plan);
  };
  const std::vector<Row> rows = {
      {"too many threads: 1 is 2.00 times", "train.threads=1",
       [](RunPlan& plan) { plan.threads.times[0].seconds = 0.0049; },
       [](RunPlan& plan) { plan.threads.times[0].seconds = 0.0097; }},
      {"too few threads: 4 are", "train.threads=4",
       [](RunPlan& plan) { plan.threads.times.push_back({.threads = 4, .seconds = 0.008}); },
       [](RunPlan& plan) { plan.threads.times.clear(); }},
      {"padding is 30 %", "", [](RunPlan& plan) { plan.epoch.padding = 3600; },
       [](RunPlan& plan) { plan.epoch.padding = 1700; }},
      {"spend 20 % of their time waiting for batches", "",
       [](RunPlan& plan) { plan.step.preparation = 0.002; },
       [](RunPlan& plan) { plan.step.preparation = 0.0009; }},
      {"validation takes 49 %", "train.validate_every (500)",
       [](RunPlan& plan) { plan.validations.scoring = 4.75; },
       [](RunPlan& plan) { plan.validations.scoring = 1.0; }},
      {"% of it for decoding", "train.exact_match_sequences (1000)",
       [](RunPlan& plan) { plan.validations.decoding = 14.25; },
       [](RunPlan& plan) { plan.validations.decoding = 1.0; }},
      {"of memory may be needed", "train.batch_size",
       [](RunPlan& plan) { plan.memory.need.step = 3'000'000'000; },
       [](RunPlan& plan) { plan.memory.need.step = 3'000'000; }},
      {"checkpoints take up to 12 MB", "train.keep_last",
       [](RunPlan& plan) { plan.checkpoints.free_disk = 11'999'999; },
       [](RunPlan& plan) { plan.checkpoints.free_disk = 12'000'000; }},
      {"train.max_time stops the run after 5 seconds", "train.max_time",
       [](RunPlan& plan) { plan.config.train.max_time = std::chrono::seconds(5); },
       [](RunPlan& plan) { plan.config.train.max_time = std::chrono::seconds(60); }},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    RunPlan plan = good_plan();
    row.set(plan);
    const std::vector<Limit> limits = find_limits(plan);
    REQUIRE(limits.size() == 1);
    CHECK(contains(limits[0].what, row.what));
    CHECK(contains(limits[0].change, row.change));
    row.unset(plan);
    CHECK(find_limits(plan).empty());
  }
}

TEST_CASE("limits that prevent a run are listed first") {
  RunPlan plan = good_plan();
  plan.epoch.padding = 3600;
  plan.memory.need.step = 3'000'000'000;
  plan.checkpoints.free_disk = 1;
  const std::vector<Limit> limits = find_limits(plan);
  REQUIRE(limits.size() == 3);
  CHECK(contains(limits[0].what, "memory"));
  CHECK(contains(limits[1].what, "disk"));
  CHECK(contains(limits[2].what, "padding"));
}

// ---- A whole plan.

RunPlan plan_of(const Config& config, std::size_t processes = 1) {
  const Corpus corpus = load_corpus(config.data);
  StepComputer computer(config, corpus);
  return plan_run(computer,
                  {.seconds = 0.2, .started = TimeLimit::Clock::now(), .processes = processes});
}

TEST_CASE("a plan contains the sizes of the run and writes no files") {
  kernels::set_num_threads(1);
  Config config = tiny_config();
  config.train.run_dir = "no/folder/yet";
  const Corpus corpus = load_corpus(config.data);
  const StepComputer computer(config, corpus);
  const RunPlan plan = plan_of(config);
  CHECK(!std::filesystem::exists("no"));
  CHECK(kernels::num_threads() == 1);
  CHECK(plan.model.parameters == computer.model().parameters.num_values());
  CHECK(plan.epoch.batches == 6);
  CHECK(plan.steps_per_epoch() == 3);
  CHECK(plan.validations.count == 3);
  CHECK(plan.checkpoints.files == 5);
  CHECK(plan.checkpoints.bytes > 3 * 4 * plan.model.parameters);
  CHECK(plan.validations.decoded == 3);
  CHECK(plan.checkpoints.free_disk.has_value());
  CHECK(!plan.division.has_value());

  // Times depend on the machine; the checks hold on every machine.
  CHECK(plan.step.measured >= 2);
  CHECK(plan.step.low <= plan.step.median);
  CHECK(plan.step.median <= plan.step.high);
  for (const double time : {plan.step.median, plan.step.gradients, plan.step.update,
                            plan.validations.scoring, plan.startup, plan.step.targets}) {
    CHECK(time > 0.0);
    CHECK(std::isfinite(time));
  }
  CHECK(plan.memory.peak > plan.memory.need.step);
  const std::size_t cores = read_cores().allowed;
  CHECK(plan.threads.times.empty() == (cores == 1));
  if (cores > 1) CHECK(plan.threads.times.back().threads == cores);
  kernels::set_num_threads(0);
}

TEST_CASE("a plan without a validation set has no validations") {
  Config config = tiny_config();
  config.data.generated.validation_size = 0;
  const RunPlan plan = plan_of(config);
  CHECK(plan.validations.count == 0);
  CHECK(plan.validations.total() == 0.0);
}

TEST_CASE("several processes divide the micro-batches, bytes and memory of a step") {
  Config config = tiny_config();
  config.train.accumulate = 8;
  const RunPlan plan = plan_of(config, 3);
  REQUIRE(plan.division.has_value());
  const StepDivision& division = *plan.division;
  CHECK(division.micro_batches == std::vector<std::size_t>{2, 3, 3});
  // The busiest of p processes sends (p - 1) / p of its values three times: for its two nodes in
  // the tree of gradient sums, and for the updated parameters.
  CHECK(division.sent == plan.model.parameters / 3 * 2 * 4 * 3);
  CHECK(division.compute == Approx(plan.step.gradients * 3 / 8 + plan.step.update / 3));
  CHECK(plan.step.median >
        plan.step.gradients / 2);  // `gradients` is the time of a whole step, not of a micro-batch
  CHECK(division.memory > 0);
  CHECK(division.memory <= plan.memory.need.total());
  CHECK(contains(plan_text(plan), "\nprocesses: 3 with 2 to 3 micro-batches each; "));
  const auto json = nlohmann::json::parse(plan_json(plan));
  CHECK(json.at("processes").at("micro_batches") == nlohmann::json({2, 3, 3}));
  CHECK(json.at("processes").at("sent_bytes") == division.sent);

  config.train.gradient_exchange = GradientFormat::bfloat16;
  CHECK(plan_of(config, 3).division->sent == plan.model.parameters / 3 * 2 * (2 * 2 + 4));
}

TEST_CASE("the timed steps of an epoch count all of its positions and targets") {
  const Config config = tiny_config();
  const Corpus corpus = load_corpus(config.data);
  StepComputer computer(config, corpus);
  const BatchStatistics epoch = computer.measure_epoch();
  std::uint64_t positions = 0, targets = 0;
  for (int step = 0; step < 3; ++step) {
    const StepTime time = time_step(computer, step < 2);
    positions += time.positions;
    targets += time.targets;
    CHECK(time.time >= time.preparation + time.gradients);
    CHECK(computer.step() == static_cast<std::uint64_t>(step) + 1);
  }
  CHECK(positions == epoch.positions);
  std::uint64_t tokens = 0;
  for (const Example& example : corpus.train) tokens += example.target.size() + 1;
  CHECK(targets == tokens);
}

}  // namespace
}  // namespace tapestry
