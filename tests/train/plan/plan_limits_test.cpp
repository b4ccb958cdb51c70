#include "train/plan/plan_limits.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/support/contains.h"

namespace tapestry {
namespace {

using doctest::Approx;
using test::contains;

/// A run of 1,000 steps of 10 ms on two cores, of which nothing is slow.
RunPlan good_plan() {
  RunPlan plan;
  plan.steps = 1000;
  plan.epoch = {
      .batches = 10, .examples = 640, .tokens = 6400, .positions = 12'000, .padding = 120};
  plan.available = {.free = 1'000'000'000, .total = 2'000'000'000};
  plan.step = {.median = 0.01, .low = 0.009, .high = 0.012, .steps = 100};
  plan.gradients = 0.009;
  plan.update = 0.001;
  plan.threads = plan.cores = 2;
  plan.thread_times = {{.threads = 1, .seconds = 0.018}, {.threads = 2, .seconds = 0.0098}};
  plan.larger_batch = BatchTrial{.batch_size = 128, .speedup = 1.05};
  plan.validations = 2;
  plan.scoring = 0.1;
  plan.decoding = 0.2;
  plan.decoded = 100;
  plan.saves = {.fewest = 2, .most = 4};
  plan.saving = 0.01;
  plan.checkpoint_bytes = 3'000'000;
  plan.checkpoints = 4;
  plan.free_disk = 1'000'000'000;
  plan.start = 0.5;
  return plan;
}

/// The only limit of a plan.
Limit only_limit(const RunPlan& plan, const Config& config = {}) {
  const std::vector<Limit> limits = find_limits(plan, config);
  REQUIRE(limits.size() == 1);
  return limits.front();
}

TEST_CASE("the parts of a plan add up, and a plan without bottlenecks has no limits") {
  const RunPlan plan = good_plan();
  CHECK(plan.total() == Approx(0.5 + 10.0 + 0.6 + 0.04));
  CHECK(plan.padding_share() == Approx(0.01));
  CHECK(plan.steps_per_epoch() == 10);
  CHECK(find_limits(plan, {}).empty());
}

TEST_CASE("steps of an epoch are rounded up, and images have no padding") {
  RunPlan plan = good_plan();
  plan.accumulate = 4;
  CHECK(plan.steps_per_epoch() == 3);
  plan.has_lengths = false;
  CHECK(plan.padding_share() == 0.0);
}

TEST_CASE("the fastest number of threads is recommended if it is significantly faster") {
  RunPlan plan = good_plan();
  plan.thread_times = {{.threads = 1, .seconds = 0.005}, {.threads = 2, .seconds = 0.01}};
  CHECK(only_limit(plan).what == "too many threads: 1 are 2.00 times as fast as 2");
  CHECK(only_limit(plan).change == "set train.threads=1, which changes no result");
  plan.thread_times = {{.threads = 2, .seconds = 0.01}, {.threads = 4, .seconds = 0.008}};
  CHECK(only_limit(plan).what == "too few threads: 4 are 1.25 times as fast as 2");
  plan.thread_times = {{.threads = 1, .seconds = 0.0099}, {.threads = 2, .seconds = 0.01}};
  CHECK(find_limits(plan, {}).empty());
  plan.thread_times.clear();
  CHECK(find_limits(plan, {}).empty());
}

TEST_CASE("small batches are a limit if larger ones are measured to be faster") {
  RunPlan plan = good_plan();
  plan.larger_batch = BatchTrial{.batch_size = 16, .accumulate = 1, .speedup = 1.5};
  CHECK(contains(only_limit(plan).what, "1.50 times as many targets per second"));
  CHECK(!contains(only_limit(plan).what, "update"));
  CHECK(contains(only_limit(plan).change, "set train.batch_size=16, with fewer steps"));
  plan.larger_batch->same_step = true;
  plan.larger_batch->accumulate = 2;
  plan.update = 0.004;
  CHECK(contains(only_limit(plan).what, "; the update takes 40 % of a step"));
  CHECK(contains(only_limit(plan).change, "set train.batch_size=16 and train.accumulate=2"));
  plan.larger_batch = BatchTrial{.batch_tokens = 4096, .speedup = 1.2};
  CHECK(contains(only_limit(plan).change, "set train.batch_tokens=4096,"));
}

TEST_CASE("padding is a limit, with the number of tokens that avoids it") {
  RunPlan plan = good_plan();
  plan.epoch.padding = 3600;
  CHECK(only_limit(plan).what == "padding is 30 % of all positions");
  CHECK(only_limit(plan).change.empty());
  plan.equal_batch_tokens = 640;
  plan.padding_by_tokens = 0.04;
  CHECK(contains(only_limit(plan).change, "set train.batch_tokens=640, with which it is 4 %"));
  plan.padding_by_tokens = 0.28;
  CHECK(only_limit(plan).change.empty());
}

TEST_CASE("waiting, validating and saving are limits if they take much of the time") {
  RunPlan plan = good_plan();
  plan.preparation = 0.002;
  CHECK(only_limit(plan).what == "steps wait for their batches for 20 % of their time");

  plan = good_plan();
  plan.scoring = 4.75;
  plan.decoding = 0.0;
  CHECK(contains(only_limit(plan).what, "validation takes 47 % of the run"));
  CHECK(only_limit(plan).change == "raise train.validate_every (500)");
  plan.decoding = 14.25;
  Config config;
  config.decoding.beam_size = 5;
  CHECK(contains(only_limit(plan, config).what, " of the run, 75 % of it for decoding"));
  CHECK(only_limit(plan, config).change ==
        "raise train.validate_every (500), or lower train.exact_match_sequences (1000) or "
        "decoding.beam_size (5)");

  plan = good_plan();
  plan.saving = 0.5;
  plan.saves.fewest = 4;
  CHECK(contains(only_limit(plan).what, "saving takes 15 % of the run"));
  CHECK(only_limit(plan).change == "raise train.save_every (500)");
  plan.saves.fewest = 2;
  const std::string best =
      "raise train.validate_every (500): a validation that is among the best is saved as well";
  CHECK(only_limit(plan).change == "raise train.save_every (500); " + best);
  config = Config();
  config.train.save_every = config.train.steps;  // saved at its end alone
  CHECK(only_limit(plan, config).change == best);
  plan.saves.fewest = 4;
  CHECK(only_limit(plan, config).change.empty());
}

TEST_CASE("problems that prevent a run come first") {
  RunPlan plan = good_plan();
  plan.need.step = 3'000'000'000;
  plan.free_disk = 11'999'999;
  plan.epoch.padding = 3600;
  Config config;
  config.train.max_time = std::chrono::seconds(5);
  const std::vector<Limit> limits = find_limits(plan, config);
  REQUIRE(limits.size() == 4);
  CHECK(limits[0].what.starts_with("3.0 GB of memory may be needed"));
  CHECK(contains(limits[0].change, "smaller train.batch_size"));
  CHECK(limits[1].what.starts_with("checkpoints take up to 12 MB, and the disk has 12 MB of"));
  CHECK(limits[2].what == "train.max_time stops the run after 5 seconds, before its end");
  CHECK(limits[3].what.starts_with("padding"));
  plan.free_disk = 12'000'000;
  CHECK(find_limits(plan, config).size() == 3);
}

TEST_CASE("other programs are a limit if they leave too few cores") {
  RunPlan plan = good_plan();
  plan.busy_cores = 1.5;
  CHECK(contains(only_limit(plan).what, "other programs use 1.5 of 2 cores"));
  plan.cores = 4;
  CHECK(find_limits(plan, {}).empty());
}

}  // namespace
}  // namespace tapestry
