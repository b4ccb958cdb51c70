// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/train/kinds.h"

/// Tests which checkpoint of a run a command uses, and how the command reports its choice.
namespace tapestry {
namespace {

namespace fs = std::filesystem;

using test::contains;
using test::Outcome;
using test::TrainedWorkplace;

TEST_CASE("paths that are not runs, and missing runs and checkpoints, are named in errors") {
  const TrainedWorkplace work;
  fs::create_directory(work / "empty");
  std::vector<test::CommandRow> rows = {
      {"train --resume empty",
       4,
       {"empty: has no checkpoint to resume from", "tapestry train CONFIG"}},
      {"train --resume nowhere", 4, {"nowhere: is not a directory", "`tapestry runs` lists"}},
      {"train --resume " + work.checkpoint(12), 4, {": is not a directory"}}};
  for (const std::string command : {"evaluate", "translate", "inspect"}) {
    rows.push_back({command + " nowhere", 4, {"nowhere: cannot be read: No such file"}});
    rows.push_back({command + " empty", 4, {"empty: found no checkpoint", "train first"}});
  }
  check_rows(work, rows);
}

TEST_CASE("if the newest checkpoint is unusable, an older checkpoint is used with a warning") {
  const std::string newest = TrainedWorkplace::checkpoint(12);
  for (const std::string kind : {"cut", "dangling link", "folder", "pipe"}) {
    CAPTURE(kind);
    const TrainedWorkplace work;
    const fs::path path = work / newest;
    const std::string whole = work.read(newest);
    if (kind == "cut") {
      fs::resize_file(path, 1000);
    } else {
      fs::remove(path);
      if (kind == "folder") fs::create_directory(path);
      if (kind == "pipe") REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
      if (kind == "dangling link") fs::create_symlink("none", path);
    }
    const Outcome inspected = work.run("inspect runs/tiny");
    CHECK(inspected.code == 0);
    CHECK(inspected.err.starts_with("tapestry: warning: " + newest + ": "));
    CHECK(inspected.err.ends_with("; another checkpoint of the run is used\n"));
    const std::string resumed = work.out("train --resume runs/tiny");
    CHECK(resumed.starts_with("warning: " + newest + ": "));
    CHECK(
        contains(resumed, "; an older checkpoint is used\nresuming runs/tiny at step 10 of 12\n"));
    if (kind == "folder") continue;  // the folder is kept
    CHECK(fs::is_regular_file(fs::symlink_status(path)));
    CHECK(work.read(newest) == whole);
  }
}

/// Trains runs/NAME, whose last step makes the model worse. Returns the path of its best
/// checkpoint.
std::string train_beyond_the_best(const test::Workplace& work, const std::string& name) {
  work.out("train " + name + ".yaml");
  work.out("train --resume runs/" + name +
           " train.steps=13 schedule.learning_rate=5 --allow-change schedule.learning_rate");
  const std::string inspected = work.out("inspect runs/" + name);
  REQUIRE(contains(inspected, "\n(the best checkpoint of the run; the newest is step 13)\n"));
  return inspected.substr(0, inspected.find(':'));
}

TEST_CASE("every command reports once that it uses the best instead of the newest checkpoint") {
  const test::KindWorkplace work;
  struct Case {
    std::string name;
    std::vector<std::string> commands;  // {} is replaced with the run
    std::string input = "";
  };
  const std::vector<Case> cases = {
      {"tiny",
       {"translate {}", "evaluate {}", "evaluate {} --json", "errors {}", "attention {}",
        "attention {} --text 'a b'", "attention {} --json", "explain {} 'a b'", "check {}",
        "check {} --json", "gradcheck {} --coordinates 1"},
       "a\n"},
      {"language", {"generate {} a --tokens 2"}},
      {"classes", {"classify {}"}, "a\n"},
      {"tags", {"tag {}"}, "a\n"},
      {"masked", {"fill {}"}, "le _\n"},
  };
  const std::string words = "the best checkpoint of the run; the newest is step 13";
  for (const auto& [name, commands, input] : cases) {
    const std::string best = train_beyond_the_best(work, name);
    for (const std::string& command : commands) {
      CAPTURE(command);
      const Outcome done = work.run(fmt::format(fmt::runtime(command), "runs/" + name), input);
      const bool in_output = done.out.starts_with(best) && contains(done.out, words);
      const bool in_message = done.choice.starts_with("tapestry: using " + best + ", step ") &&
                              contains(done.choice, words);
      CHECK((contains(command, "--json") ? in_message : in_output != in_message));
      CHECK(done.err.empty());
      CHECK_FALSE(done.out.empty());
      const Outcome file = work.run(fmt::format(fmt::runtime(command), best), input);
      CHECK(file.choice.empty());
      CHECK_FALSE(contains(file.out, words));
    }
  }

  // score also prints its summary on standard error. A report also contains the notice about the
  // best checkpoint.
  const std::string best = work.out("inspect runs/tiny");
  const Outcome scored = work.run("score runs/tiny", "a\tb\n");
  CHECK(contains(scored.choice, words));
  const Outcome file = work.run("score " + best.substr(0, best.find(':')), "a\tb\n");
  CHECK(file.choice.empty());
  CHECK(file.out == scored.out);
  CHECK(file.err == scored.err);
  REQUIRE(work.run("report runs/tiny").code == 0);
  CHECK(contains(work.read("runs/tiny/report.html"),
                 R"("choice":"the best checkpoint of the run; the newest is step 13")"));

  // If the best checkpoint is damaged, the newest checkpoint is used.
  fs::resize_file(work / best.substr(0, best.find(':')), 0);
  const Outcome newest = work.run("evaluate runs/tiny");
  CHECK(newest.code == 0);
  CHECK(newest.out.starts_with(work.checkpoint(13) + ", step 13\n"));
  CHECK(newest.err.starts_with("tapestry: warning: " + best.substr(0, best.find(':')) + ": "));
}

}  // namespace
}  // namespace tapestry
