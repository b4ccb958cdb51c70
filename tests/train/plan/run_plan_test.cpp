#include "train/plan/run_plan.h"

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "autograd/kernels/parallel.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/tiny_run.h"
#include "train/checkpoint/checkpoint_file.h"
#include "train/step_time.h"
#include "train/tasks/data_source.h"

namespace tapestry {
namespace {

using doctest::Approx;
using test::tiny_config;

// ---- Validations and saves.

TEST_CASE("validations are counted by train.validate_every, with one at the last step") {
  TrainOptions options;
  options.steps = 12;
  options.validate_every = 5;
  CHECK(count_validations(options, true) == 3);
  CHECK(count_validations(options, false) == 0);
  options.validate_every = 6;
  CHECK(count_validations(options, true) == 2);
  options.validate_every = 100;
  CHECK(count_validations(options, true) == 1);
}

TEST_CASE("saves are scheduled ones, the last one, and those of the best validations") {
  TrainOptions options;
  const auto check = [&](std::size_t steps, std::size_t save_every, std::size_t validate_every,
                         bool validates, std::uint64_t fewest, std::uint64_t most) {
    CAPTURE(steps);
    CAPTURE(save_every);
    CAPTURE(validate_every);
    options.steps = steps;
    options.save_every = save_every;
    options.validate_every = validate_every;
    const Occasions saves = count_saves(options, validates);
    CHECK(saves.fewest == fewest);
    CHECK(saves.most == most);
  };
  check(12, 5, 4, true, 3, 5);  // 5 10 12, and 4 8
  check(12, 5, 4, false, 3, 3);
  check(12, 6, 5, true, 2, 4);  // 6 12, and 5 10
  check(12, 5, 6, true, 3, 4);  // 5 10 12, and 6
  check(12, 4, 6, true, 3, 4);  // 4 8 12, and 6
  check(12, 3, 6, true, 4, 4);
  check(12, 100, 100, true, 1, 1);
  check(13, 4, 6, true, 4, 5);                                            // 4 8 12 13, and 6
  check(1'000'000'000'000, 34'359'738'368, 536'870'913, true, 30, 1892);  // product above 2^64
}

// ---- A whole plan.

struct PlannedRun {
  explicit PlannedRun(const Config& config) : corpus(load_corpus(config.data)) {
    StepComputer computer(config, corpus);
    plan = plan_run(computer, {.seconds = 0.2, .started = TimeLimit::Clock::now()});
    parameters = computer.model().parameters.num_values();
    snapshot = computer.snapshot();
  }

  test::TemporaryFolder folder;
  Corpus corpus;
  RunPlan plan;
  std::uint64_t parameters = 0;
  ArrayStore snapshot;
};

TEST_CASE("a plan has the sizes of the run and writes nothing") {
  kernels::set_num_threads(1);
  Config config = tiny_config();
  config.train.run_dir = "no/folder/yet";
  const PlannedRun run(config);
  const RunPlan& plan = run.plan;
  CHECK(std::filesystem::is_empty(run.folder.path()));
  CHECK(!std::filesystem::exists("checkpoint.h5"));
  CHECK(!std::filesystem::exists("no"));
  CHECK(kernels::num_threads() == 1);
  CHECK(plan.model.parameters == run.parameters);
  CHECK(plan.steps == test::tiny_steps);
  CHECK(plan.epoch.batches == 6);
  CHECK(plan.steps_per_epoch() == 3);
  CHECK(plan.validations == 3);
  CHECK(plan.saves.most == 6);  // 3 4 6 8 9 12
  CHECK(plan.checkpoints == 5);
  CHECK(plan.decoded == 3);
  CHECK(plan.free_disk.has_value());
  CHECK(plan.whole_validation);
  CHECK(plan.reports == 0);
  CHECK(plan.all_reports() == 0.0);

  write_checkpoint(run.folder / "written.h5", run.snapshot);
  CHECK(plan.checkpoint_bytes == std::filesystem::file_size(run.folder / "written.h5"));

  // Times of this machine; what holds on any.
  CHECK(plan.step.steps >= 2);
  CHECK(plan.step.low <= plan.step.median);
  CHECK(plan.step.median <= plan.step.high);
  for (const double time : {plan.step.median, plan.gradients, plan.update, plan.scoring,
                            plan.saving, plan.start, plan.targets}) {
    CHECK(time > 0.0);
    CHECK(std::isfinite(time));
  }
  CHECK(plan.peak_memory > plan.need.step);
  CHECK(plan.larger_batch.has_value());
  CHECK(plan.larger_batch->batch_size == 8);
  CHECK(plan.larger_batch->accumulate == 1);
  CHECK(plan.larger_batch->same_step);
  kernels::set_num_threads(0);
}

TEST_CASE("a plan without a validation set has no validations") {
  Config config = tiny_config();
  config.data.generated.validation_size = 0;
  config.train.accumulate = 1;
  const PlannedRun run(config);
  CHECK(run.plan.validations == 0);
  CHECK(run.plan.scoring == 0.0);
  CHECK(run.plan.all_validations() == 0.0);
  CHECK(run.plan.saves.most == 4);
  CHECK(run.plan.larger_batch->batch_size == 8);
  CHECK(!run.plan.larger_batch->same_step);
}

TEST_CASE("a plan has the time of the reports of the run") {
  Config config = tiny_config();
  config.train.report_every = 1;
  const RunPlan plan = PlannedRun(config).plan;
  CHECK(plan.reports == 3);
  CHECK(plan.reporting > 0.0);
  CHECK(plan.all_reports() == Approx(3 * plan.reporting));
  const double others = plan.start + plan.all_steps() + plan.all_validations() + plan.all_saves();
  CHECK(plan.total() == Approx(others + plan.all_reports()).epsilon(1e-9));
}

TEST_CASE("a set of examples no larger than a batch has no larger batches to try") {
  Config config = tiny_config();
  config.train.batch_size = 64;
  config.train.accumulate = 1;
  CHECK(!PlannedRun(config).plan.larger_batch.has_value());
}

TEST_CASE("batches by tokens are tried if they are allowed and there is padding") {
  Config config = tiny_config();
  const PlannedRun run(config);
  CHECK(run.plan.epoch.padding > 0);
  REQUIRE(run.plan.equal_batch_tokens.has_value());
  CHECK(*run.plan.equal_batch_tokens >= 5);  // the longest example
  CHECK(run.plan.padding_by_tokens <= 1.0);
  config.model.normalization = Normalization::batch_norm;
  CHECK(!PlannedRun(config).plan.equal_batch_tokens.has_value());
}

TEST_CASE("timed steps of an epoch have its positions and targets") {
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
