#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "tests/support/contains.h"
#include "tests/train/kind_configs.h"
#include "tests/train/refusal.h"

/// `tapestry report`. What a page contains: tests/train/report.
namespace tapestry {
namespace {

using test::check_refusal;
using test::contains;
using test::Outcome;

TEST_CASE("report writes a page into the directory of a run") {
  const test::TrainedWorkplace work;
  const Outcome written = work.run({"report", "runs/tiny"});
  CHECK(written.code == 0);
  CHECK(written.err.empty());
  CHECK(written.out.starts_with("runs/tiny/report.html: 0."));
  const std::string page = test::read_text(work / "runs/tiny/report.html");
  CHECK(page.starts_with("<!DOCTYPE html>"));
  CHECK(contains(page, R"("name":"tiny")"));
  // A report of the folder of checkpoints has the same place.
  REQUIRE(work.run({"report", "runs/tiny/checkpoints"}).code == 0);
  CHECK_FALSE(std::filesystem::exists(work / "runs/tiny/checkpoints/report.html"));
  // The run can still be resumed, and its page replaced.
  REQUIRE(work.run({"train", "--resume", "runs/tiny", "train.steps=14"}).code == 0);
  REQUIRE(work.run({"report", "runs/tiny"}).code == 0);
  CHECK(contains(test::read_text(work / "runs/tiny/report.html"), R"("steps":14)"));
}

TEST_CASE("report of several runs or of a checkpoint is written to the working folder") {
  const test::TrainedWorkplace work;
  const Outcome both = work.run({"report", "runs/tiny", work.checkpoint(12)});
  CHECK(both.code == 0);
  CHECK(both.out.starts_with("report.html: "));
  CHECK(std::filesystem::exists(work / "report.html"));
  REQUIRE(work.run({"report", work.checkpoint(12), "--output", "one.html"}).code == 0);
  CHECK(std::filesystem::exists(work / "one.html"));
  CHECK_FALSE(std::filesystem::exists(work / "runs/tiny/report.html"));
}

TEST_CASE("a run writes its report after validations and at its end") {
  const test::Workplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  REQUIRE(work.run({"train", "tiny.yaml", "train.run_dir=with", "train.report_every=1"}).code == 0);
  const std::string page = test::read_text(work / "with/report.html");
  CHECK(contains(page, R"("in_progress":false)"));
  CHECK(contains(page, R"("held_out":{"set":"test")"));
  CHECK(contains(page, R"("checkpoint":{"file":"with/checkpoints/step-)"));
  // It changes no number of the run.
  REQUIRE(work.run({"train", "tiny.yaml", "train.run_dir=without"}).code == 0);
  CHECK_FALSE(std::filesystem::exists(work / "without/report.html"));
  CHECK(test::read_text(work / "with/metrics.csv") ==
        test::read_text(work / "without/metrics.csv"));
  const auto digest = [&](const std::string& run) {
    const std::string text = work.run({"inspect", run + "/checkpoints/step-00000012.h5"}).out;
    const std::string name = "digest of all numbers: ";
    return text.substr(text.find(name) + name.size(), 16);
  };
  CHECK(digest("with") == digest("without"));
}

TEST_CASE("a report that a run cannot write is a warning") {
  const test::TrainedWorkplace work;
  std::filesystem::create_directory(work / "runs/tiny/report.html");
  const Outcome done =
      work.run({"train", "--resume", "runs/tiny", "train.steps=14", "train.report_every=1"});
  CHECK(done.code == 0);
  CHECK(contains(done.out, "\nwarning: report not written: runs/tiny/report.html: "));
}

TEST_CASE("report warns about data that are left out") {
  const test::KindWorkplace work;
  REQUIRE(work.run({"train", "tags.yaml"}).code == 0);
  std::filesystem::remove(work / "tags.txt");
  const Outcome written = work.run({"report", "runs/tags"});
  CHECK(written.code == 0);
  CHECK(contains(written.err,
                 "tapestry: warning: runs/tags: held-out examples and attention are "
                 "left out: "));
}

TEST_CASE("report refuses paths that are no runs, and folders that it cannot write to") {
  const test::TrainedWorkplace work;
  std::filesystem::create_directory(work / "folder");
  check_refusal(work, {"report", "folder"}, 4,
                "folder: holds no checkpoint, expected a run directory or a checkpoint file\n"
                "hint: train first: tapestry train CONFIG");
  check_refusal(work, {"report", "runs/tiny", "folder"}, 4,
                "folder: holds no checkpoint, expected a run directory or a checkpoint file\n"
                "hint: train first: tapestry train CONFIG");
  check_refusal(work, {"report"}, 2,
                "command line: RUN is required\nhint: see `tapestry report --help`");
  check_refusal(work, {"report", "runs/tiny", "--output", ""}, 2,
                "command line: --output: found an empty text, expected a path\n"
                "hint: see `tapestry report --help`");
  check_refusal(work, {"report", "runs/tiny", "--output", "missing/report.html"}, 5,
                "missing/report.html: could not open its folder: No such file or directory\n"
                "hint: create the folder missing");
}

}  // namespace
}  // namespace tapestry
