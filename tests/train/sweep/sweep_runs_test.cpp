#include "train/sweep/sweep_runs.h"

#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace tapestry {
namespace {

using Words = std::vector<std::string>;

Sweep sweep_with(Words fixed) {
  return {.folder = "out",
          .config = "tiny.yaml",
          .overrides = {.fixed = std::move(fixed), .axes = {{"train.seed", {"1", "2"}}}},
          .runs = {{"1"}, {"2"}}};
}

TEST_CASE("a run of a sweep has a name, a directory and the overrides of its values") {
  Sweep sweep = sweep_with({"train.steps=8"});
  CHECK(run_name(sweep, 1) == "run-02");
  CHECK(run_folder(sweep, 1) == "out/run-02");
  CHECK(describe_run(sweep, 1) == "run-02  train.seed=2");
  CHECK(run_overrides(sweep, 1) == Words{"train.steps=8", "train.seed=2"});
  sweep.runs.resize(100, {"1"});
  CHECK(run_name(sweep, 1) == "run-002");
}

TEST_CASE("a resumed run of a sweep is given the settings of the process again") {
  Sweep sweep = sweep_with({"train.steps=8", "train.max_time=1h", "train.kernels=baseline",
                            "train.threads=3", "train.detect_anomaly=true", "train.run_dir=x"});
  CHECK(run_arguments(sweep, 0, 4, true) == Words{"train", "--quiet", "--resume", "out/run-01",
                                                  "train.max_time=1h", "train.kernels=baseline",
                                                  "train.threads=3", "train.detect_anomaly=true"});
  sweep = sweep_with({"train.threads=3"});
  sweep.halving = 2;
  CHECK(run_arguments(sweep, 0, 4, false) == Words{"train", "--quiet", "--until", "4", "tiny.yaml",
                                                   "train.threads=3", "train.seed=1",
                                                   "train.run_dir=out/run-01"});
}

TEST_CASE("the plan of a sweep has no settings of the process and no number of jobs") {
  const Config config;
  const std::string plan = sweep_plan_text(sweep_with({"train.steps=8"}), config);
  Config other = config;
  other.train.threads = 2;
  other.train.max_time = std::chrono::seconds(5);
  other.train.run_dir = "elsewhere";
  Sweep sweep = sweep_with({"train.threads=2", "train.steps=8", "train.max_time=5s"});
  sweep.jobs = 2;
  CHECK(sweep_plan_text(sweep, other) == plan);
  CHECK(sweep_plan_text(sweep_with({"train.steps=9"}), config) != plan);
  other.train.steps = 9;
  CHECK(sweep_plan_text(sweep_with({"train.steps=8"}), other) != plan);
  sweep.halving = 2;
  CHECK(sweep_plan_text(sweep, config) != plan);
}

}  // namespace
}  // namespace tapestry
