// SPDX-License-Identifier: BSD-3-Clause
#include "train/checkpoint/run_state.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/contains.h"
#include "tests/support/temporary_folder.h"
#include "train/checkpoint/run_lock.h"

namespace tapestry {
namespace {

namespace fs = std::filesystem;
using test::contains;
using test::TemporaryFolder;

const std::string heading =
    "step,epoch,split,loss,perplexity,token_accuracy,exact_match,learning_rate,gradient_norm,"
    "target_tokens\n";

void write(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

/// A run directory with this train.log.
fs::path make_run(const fs::path& path, const std::string& log) {
  fs::create_directories(path / "checkpoints");
  write(path / "config.yaml", "data:\n  task: copy\ntrain:\n  steps: 40\n");
  write(path / "metrics.csv", heading +
                                  "10,1,validation,0.5,1.6,0.9,,,,30\n"
                                  "20,1,validation,0.25,1.3,0.9,,,,30\n"
                                  "30,1,validation,0.75,2.1,0.9,,,,30\n");
  write(path / "train.log", log);
  return path;
}

const std::string stamp = "2026-11-23 19:59:31  ";

}  // namespace

TEST_CASE("the step of a run is the step of its newest checkpoint if its log ends earlier") {
  const TemporaryFolder folder;
  const fs::path run = make_run(folder / "run", stamp + "step 10/40  epoch 1  loss 2\n");
  CHECK(read_run_state(run).step == 10);
  write(run / "checkpoints" / "step-00000035.h5", "");
  CHECK(read_run_state(run).step == 35);
  write(run / "checkpoints" / "step-00000005.h5", "");
  CHECK(read_run_state(run).step == 35);
}

TEST_CASE("the end of the log determines whether a run is finished, failed or stopped") {
  const TemporaryFolder folder;
  const std::string steps = stamp + "step   10/40  epoch 1  loss 2\n" + stamp +
                            "step 1,020/40  epoch 1  loss 1\n" + stamp +
                            "validation at step 1,020: loss 1\n";
  const RunState stopped = read_run_state(make_run(folder / "stopped", steps));
  CHECK(stopped.phase == RunPhase::stopped);
  CHECK(stopped.step == 1020);
  CHECK(stopped.steps == 40);
  CHECK(stopped.problem.empty());

  const RunState finished = read_run_state(
      make_run(folder / "finished", steps + stamp + "done: 40 steps; next: tapestry evaluate x\n"));
  CHECK(finished.phase == RunPhase::finished);
  CHECK(finished.step == 40);

  const std::string error = stamp + "error: step 2: the loss is nan\n";
  const RunState failed = read_run_state(make_run(folder / "failed", steps + error));
  CHECK(failed.phase == RunPhase::failed);
  CHECK(failed.problem == "step 2: the loss is nan");

  const std::string resuming = stamp + "resuming run at step 40 of 80\n";
  const std::string done = stamp + "done: 40 steps\n";
  for (const std::string& log : {error + steps, error + resuming, done + resuming}) {
    CAPTURE(log);  // includes a run that was killed before its first step
    const RunState resumed = read_run_state(make_run(folder / "resumed", log));
    CHECK(resumed.phase == RunPhase::stopped);
    CHECK(resumed.problem.empty());
  }
}

TEST_CASE("pipes and huge files in a run directory are reported as problems and not read") {
  const TemporaryFolder folder;
  const fs::path run = make_run(folder / "run", "");
  for (const char* name : {"train.log", "metrics.csv"}) {
    fs::remove(run / name);
    REQUIRE(::mkfifo((run / name).c_str(), 0600) == 0);
    CHECK(contains(read_run_state(run).problem, "found a pipe"));
    fs::remove(run / name);
  }
  write(run / "metrics.csv", "");
  fs::resize_file(run / "metrics.csv", std::uintmax_t{1} << 40);  // takes no space
  CHECK(contains(read_run_state(run).problem, "found 1099511627776 bytes, expected at most"));
  REQUIRE(::mkfifo((run / ".lock").c_str(), 0600) == 0);
  CHECK_FALSE(is_locked(run));
}

TEST_CASE("the last change of a run may be in the year 2300") {
  const TemporaryFolder folder;
  const fs::path run = make_run(folder / "run", stamp + "step 20/40\n");
  CHECK(read_run_state(run).changed > 0);
  constexpr std::time_t year_2300 = 10'413'792'000;
  const timespec times[2] = {{year_2300, 0}, {year_2300, 0}};
  REQUIRE(::utimensat(AT_FDCWD, (run / "train.log").c_str(), times, 0) == 0);
  struct stat log {};
  REQUIRE(::stat((run / "train.log").c_str(), &log) == 0);
  if (log.st_mtime == year_2300) CHECK(read_run_state(run).changed == year_2300);
}

TEST_CASE("the best value of a run is the best finite value of its train.best_metric") {
  const TemporaryFolder folder;
  const fs::path run = make_run(folder / "run", "");
  CHECK(read_run_state(run).best == 0.25);
  CHECK(read_run_state(run).best_step == 20);
  write(run / "config.yaml", "train:\n  best_metric: token_accuracy\n");
  write(run / "metrics.csv", heading +
                                 "10,1,validation,0.5,1.6,0.9,,,,30\n"
                                 "20,1,validation,0.25,1.3,0.8,,,,30\n");
  CHECK(read_run_state(run).best == 0.9);
  CHECK(read_run_state(run).best_step == 10);
  write(run / "metrics.csv", heading +
                                 "10,1,validation,1,3,nan,,,,30\n"
                                 "20,1,validation,1,3,0.5,,,,30\n"
                                 "30,1,validation,1,3,inf,,,,30\n");
  CHECK(read_run_state(run).best == 0.5);
}

TEST_CASE("an unreadable file is reported as a problem of the run, and other files are read") {
  const TemporaryFolder folder;
  const fs::path run = make_run(folder / "run", stamp + "step 3/40  epoch 1\n");
  write(run / "config.yaml", "modell:\n  a: 1\n");
  const RunState state = read_run_state(run);
  CHECK(state.step == 3);
  CHECK(state.steps == 0);
  CHECK(contains(state.problem, "unknown section `modell`"));
  CHECK_FALSE(contains(state.problem, "\n"));
  write(run / "config.yaml", "train:\n  steps: 40\n");
  write(run / "metrics.csv", "something else\n");
  CHECK(contains(read_run_state(run).problem, "metrics.csv"));
}

TEST_CASE(
    "steps and best score of another program's run are read, and a problem is a single line") {
  const TemporaryFolder folder;
  const fs::path run = make_run(folder / "run", stamp + "step 3/40  epoch 1\n");
  write(
      run / "config.yaml",
      "model:\n  kind: aligned\n  gain: 0.5\ntrain:\n  steps: 40\n  best_metric: token_accuracy\n");
  write(run / "metrics.csv", heading + "10,1,validation,0.5,1.6,0.9,,,,30\n");
  const RunState state = read_run_state(run);
  CHECK(state.steps == 40);
  CHECK(state.metric == "token_accuracy");
  CHECK(state.best == 0.9);
  CHECK(state.problem.starts_with((run / "config.yaml").string() + ":2:9: expected seq2seq, "));
  CHECK(state.problem.ends_with(", found \"aligned\" (1 further problem)"));
  write(run / "config.yaml", "train:\n  steps: many\n");
  CHECK(read_run_state(run).steps == 0);
}

TEST_CASE("a run is running while a process holds its lock") {
  const TemporaryFolder folder;
  const fs::path run = make_run(folder / "run", stamp + "done: 40 steps\n");
  CHECK_FALSE(is_locked(run));
  {
    const RunLock lock(run);
    CHECK(is_locked(run));
    const RunState state = read_run_state(run);
    CHECK(state.phase == RunPhase::running);
    CHECK(state.holder.starts_with("pid "));
  }
  CHECK_FALSE(is_locked(run));
  CHECK(read_run_state(run).phase == RunPhase::finished);
}

TEST_CASE("find_runs() finds runs down to a given depth, but not inside other runs") {
  const TemporaryFolder folder;
  make_run(folder / "b", "");
  make_run(folder / "a" / "two", "");
  make_run(folder / "b" / "inner", "");
  make_run(folder / ".hidden", "");
  make_run(folder / "x" / "y" / "z", "");
  fs::create_directories(folder / "empty");
  const std::vector<fs::path> expected = {folder / "a" / "two", folder / "b"};
  CHECK(find_runs(folder.path()) == expected);
  CHECK(find_runs(folder / "b") == std::vector<fs::path>{folder / "b"});
  CHECK(find_runs(folder.path(), 3).size() == 3);
  CHECK(find_runs(folder / "missing").empty());
}

}  // namespace tapestry
