#include <doctest/doctest.h>

#include <string>

#include "tests/support/contains.h"
#include "tests/train/program.h"

/// `tapestry runs` and `tapestry watch`.
namespace tapestry {
namespace {

using test::contains;
using test::Outcome;

TEST_CASE("runs lists every run with its state, and the error of a failed one") {
  const test::TrainedWorkplace work;
  REQUIRE(work.run({"train", "tiny.yaml", "train.run_dir=runs/bad", "optimizer.kind=sgd",
                    "schedule.learning_rate=1e30", "optimizer.clip_norm=0"})
              .code == 6);
  const Outcome listed = work.run({"runs"});
  CHECK(listed.code == 0);
  CHECK(contains(listed.out, "runs/tiny  finished  12/12  loss "));
  CHECK(contains(listed.out, "runs/bad   failed"));
  CHECK(contains(listed.out, "\n  step "));
  const Outcome json = work.run({"runs", "runs/tiny", "--json"});
  CHECK(contains(json.out, "\"state\": \"finished\""));
  CHECK_FALSE(contains(json.out, "runs/bad"));
  CHECK(work.run({"runs", "missing"}).code == 2);
  CHECK(work.run({"runs", "runs/tiny/checkpoints"}).out == "no runs in runs/tiny/checkpoints\n");
}

TEST_CASE("watch prints the last lines of a run that has ended") {
  const test::TrainedWorkplace work;
  const Outcome watched = work.run({"watch", "runs/tiny", "--lines", "1"});
  CHECK(watched.code == 0);
  CHECK(contains(watched.out, "  done: 12 steps"));
  CHECK(contains(watched.out, "runs/tiny is finished\n"));
  CHECK_FALSE(contains(watched.out, "validation at"));
  CHECK(work.run({"watch", "."}).code == 4);
}

}  // namespace
}  // namespace tapestry
