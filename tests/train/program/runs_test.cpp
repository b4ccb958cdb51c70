#include <doctest/doctest.h>
#include <sys/stat.h>

#include <filesystem>
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

TEST_CASE("pipes and huge files in a run directory neither block nor exhaust a command") {
  const test::TrainedWorkplace work;
  std::filesystem::copy(work / "runs/tiny", work / "runs/copy",
                        std::filesystem::copy_options::recursive);
  const auto metrics = work / "runs/copy/metrics.csv", log = work / "runs/copy/train.log";
  std::filesystem::resize_file(metrics, std::uintmax_t{1} << 40);
  CHECK(work.run({"diff", "runs/tiny", "runs/copy"}).code == 3);
  std::filesystem::remove(metrics);
  REQUIRE(::mkfifo(metrics.c_str(), 0600) == 0);
  CHECK(contains(work.run({"diff", "runs/tiny", "runs/copy"}).err, "found a pipe"));
  CHECK(contains(work.run({"runs"}).out, "found a pipe"));
  test::write_text(log, std::string(3 << 20, 'x') + "\nlast\n");
  CHECK(contains(work.run({"watch", "runs/copy", "--lines", "1"}).out, "last\nruns/copy is "));
  CHECK(work.run({"watch", "runs/copy", "--lines", "2"}).out.size() > (3 << 20));
  std::filesystem::remove(log);
  REQUIRE(::mkfifo(log.c_str(), 0600) == 0);
  CHECK(contains(work.run({"watch", "runs/copy"}).err, "found a pipe"));
}

}  // namespace
}  // namespace tapestry
