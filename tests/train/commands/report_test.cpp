// SPDX-License-Identifier: BSD-3-Clause
#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "tests/train/kinds.h"

/// Tests `tapestry report`, `runs` and `watch`; tests/train/report tests the contents of pages.
namespace tapestry {
namespace {

namespace fs = std::filesystem;
using test::check_words;
using test::contains;
using test::TrainedWorkplace;

TEST_CASE(
    "a report is written to the directory of its run, or to the working folder for several runs") {
  const TrainedWorkplace work;
  CHECK(work.run("report runs/tiny").out.starts_with("runs/tiny/report.html: 0."));
  const std::string page = work.read("runs/tiny/report.html");
  CHECK(page.starts_with("<!DOCTYPE html>"));
  CHECK(contains(page, R"("name":"tiny")"));
  // For the folder `checkpoints`, the report is also written into the run directory.
  REQUIRE(work.run("report runs/tiny/checkpoints").code == 0);
  CHECK_FALSE(work.has("runs/tiny/checkpoints/report.html"));
  // The run can still be resumed, and its report can be replaced.
  work.out("train --resume runs/tiny train.steps=14");
  REQUIRE(work.run("report runs/tiny").code == 0);
  CHECK(contains(work.read("runs/tiny/report.html"), R"("steps":14)"));

  fs::remove(work / "runs/tiny/report.html");
  CHECK(work.out("report runs/tiny " + work.checkpoint(12)).starts_with("report.html: "));
  CHECK(work.has("report.html"));
  CHECK(work.run("report --output one.html " + work.checkpoint(12)).code == 0);
  CHECK(work.has("one.html"));
  CHECK_FALSE(work.has("runs/tiny/report.html"));
  fs::create_directory(work / "folder");
  check_rows(work,
             {{"report folder", 4, {"folder: found no checkpoint", "train first"}},
              {"report runs/tiny folder", 4, {"folder: found no checkpoint"}},
              {"report", 2, {"RUN is required"}},
              {"report runs/tiny --output missing/r.html", 5, {"create the folder missing"}}});
}

TEST_CASE("--output accepts new files, and existing files with --force, but never files of a run") {
  const TrainedWorkplace work;
  REQUIRE(::mkfifo((work / "pipe").c_str(), 0600) == 0);
  fs::create_symlink("nothing", work / "link");
  fs::create_directory_symlink("runs/tiny/checkpoints", work / "steps");
  fs::create_directory(work / "folder");
  work.write("mine.txt", "mine");
  const auto check_outputs = [&](const std::string& name, const std::string& command) {
    CAPTURE(name);
    const std::string own = "belongs to a run";
    check_rows(
        work,
        {{command + "pipe", 2, {"pipe is a pipe, socket or device"}},
         {command + "link --force", 2, {"link is a symbolic link"}},
         {command + "folder --force", 2, {"folder is a folder"}},
         {command + "mine.txt", 2, {"mine.txt exists, expected the name of a new", "--force"}},
         {command + work.checkpoint(12) + " --force", 2, {own}},
         {command + "runs/tiny/checkpoints/new.h5", 2, {own}},
         {command + "steps/new.h5", 2, {own}},
         {command + "runs/tiny/train.log --force", 2, {own}},
         {command + "runs/tiny/../tiny/metrics.csv --force", 2, {own}},
         {command + "runs/tiny/.lock --force", 2, {own}}});
    CHECK(work.read("mine.txt") == "mine");
    CHECK(work.run(command + "mine.txt --force").code == 0);
    CHECK(work.read("mine.txt") != "mine");
    work.write("mine.txt", "mine");
    CHECK(work.run(command + "runs/tiny/my-output").code == 0);
    fs::remove(work / "runs/tiny/my-output");
    const std::string longest = std::string(251, 'a') + ".htm";
    CHECK(work.run(command + longest).code == 0);
    CHECK(work.has(longest));
    fs::remove(work / longest);
    CHECK(contains(work.run(command + "a" + longest).err, "hint: choose a shorter name"));
    check_rows(work, {{command + "''", 2, {"found an empty text"}},
                      {command + "~/x", 2, {"whose ~ only a shell expands"}},
                      {command + "$HOME/x", 2, {"whose $HOME only a shell expands"}}});
  };
  check_outputs("report", "report runs/tiny --output ");
  check_outputs("explain", "explain runs/tiny 'd a' --output ");
  check_outputs("replay", "replay runs/tiny --step 3 --output ");
  fs::remove(work / "average.h5");
  check_rows(work,
             {{"average pipe " + work.checkpoint(12), 2, {"pipe is a pipe"}},
              {"average runs/tiny/average.h5 " + work.checkpoint(12), 2, {"belongs to a run"}},
              {"config new pipe", 2, {"pipe is a pipe"}},
              {"config new runs/tiny/config.yaml", 2, {"belongs to a run"}},
              {"config new ''", 2, {"found an empty text"}}});
  // A command replaces its default output, unless the output is a link.
  REQUIRE(work.run("report runs/tiny").code == 0);
  REQUIRE(work.run("report runs/tiny").code == 0);
  fs::remove(work / "runs/tiny/report.html");
  fs::create_symlink("config.yaml", work / "runs/tiny/report.html");
  check_rejected(work, "report runs/tiny", 2, {"symbolic link"});
}

TEST_CASE("a run writes its report after validations and at its end") {
  const test::TinyWorkplace work;
  work.out("train tiny.yaml train.run_dir=with train.report_every=1");
  check_words(work.read("with/report.html"),
              {R"("in_progress":false)", R"("held_out":{"set":"validation")",
               R"("checkpoint":{"file":"with/checkpoints/step-)"});
  // Writing reports does not change the results of the run.
  work.out("train tiny.yaml train.run_dir=without");
  CHECK_FALSE(work.has("without/report.html"));
  CHECK(work.read("with/metrics.csv") == work.read("without/metrics.csv"));
  const auto digest = [&](const std::string& run) {
    const std::string text = work.out("inspect " + work.checkpoint(12, run));
    const std::string name = "digest of all numbers: ";
    return text.substr(text.find(name) + name.size(), 16);
  };
  CHECK(digest("with") == digest("without"));
}

TEST_CASE("a report that cannot be written or is incomplete causes a warning") {
  const TrainedWorkplace work;
  fs::create_directory(work / "runs/tiny/report.html");
  CHECK(contains(work.out("train --resume runs/tiny train.steps=14 train.report_every=1"),
                 "\nwarning: report not written: runs/tiny/report.html: "));
  const test::KindWorkplace tags;
  tags.out("train tags.yaml");
  fs::remove(tags / "tags.txt");
  const test::Outcome written = tags.run("report runs/tags");
  CHECK(written.code == 0);
  CHECK(contains(written.err, "warning: runs/tags: held-out examples and attention are left out"));
}

TEST_CASE("runs lists every run with its state, and the error of each failed run") {
  const TrainedWorkplace work;
  REQUIRE(work.run("train tiny.yaml train.run_dir=runs/bad optimizer.kind=sgd "
                   "schedule.learning_rate=1e30 optimizer.clip_norm=0")
              .code == 6);
  check_words(work.out("runs"),
              {"runs/tiny  finished  12/12  loss ", "runs/bad   failed", "\n  step "});
  const std::string json = work.out("runs runs/tiny --json");
  CHECK(contains(json, "\"state\": \"finished\""));
  CHECK_FALSE(contains(json, "runs/bad"));
  CHECK(work.out("runs runs/tiny/checkpoints") == "no runs in runs/tiny/checkpoints\n");
  check_rejected(work, "runs missing", 2, {"missing"});
}

TEST_CASE("watch prints the last lines of a run that has ended") {
  const TrainedWorkplace work;
  const std::string watched = work.out("watch runs/tiny --lines 1");
  check_words(watched, {"  done: 12 steps", "runs/tiny is finished\n"});
  CHECK_FALSE(contains(watched, "validation at"));
  check_rejected(work, "watch .", 4, {"."});
}

TEST_CASE(
    "commands neither block on pipes in a run directory nor run out of memory on huge files") {
  const TrainedWorkplace work;
  fs::copy(work / "runs/tiny", work / "runs/copy", fs::copy_options::recursive);
  const auto metrics = work / "runs/copy/metrics.csv", log = work / "runs/copy/train.log";
  fs::resize_file(metrics, std::uintmax_t{1} << 40);
  CHECK(work.run("diff runs/tiny runs/copy").code == 3);
  fs::remove(metrics);
  REQUIRE(::mkfifo(metrics.c_str(), 0600) == 0);
  CHECK(contains(work.run("diff runs/tiny runs/copy").err, "found a pipe"));
  CHECK(contains(work.run("runs").out, "found a pipe"));
  test::write_text(log, std::string(3 << 20, 'x') + "\nlast\n");
  CHECK(contains(work.run("watch runs/copy --lines 1").out, "last\nruns/copy is "));
  CHECK(work.run("watch runs/copy --lines 2").out.size() > (3 << 20));
  fs::remove(log);
  REQUIRE(::mkfifo(log.c_str(), 0600) == 0);
  CHECK(contains(work.run("watch runs/copy").err, "found a pipe"));
}

}  // namespace
}  // namespace tapestry
