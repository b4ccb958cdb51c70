// SPDX-License-Identifier: BSD-3-Clause
#include <chrono>
#include <cmath>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "autograd/instruction_set.h"
#include "tests/train/kinds.h"
#include "train/checkpoint/run_lock.h"

/// Tests `tapestry sweep`.
namespace tapestry {
namespace {

namespace fs = std::filesystem;
using test::check_words;
using test::contains;
using test::Outcome;

struct SweepWorkplace : test::TinyWorkplace {
  std::string table() const { return read("runs/tiny-sweep/sweep.csv"); }
  /// The path of a file or folder in a run directory of the sweep.
  std::string of_run(const std::string& run, const std::string& name) const {
    return "runs/tiny-sweep/" + run + "/" + name;
  }
  const std::string last = "checkpoints/step-00000012.h5";
};

const std::string seeds = "sweep tiny.yaml train.seed=1..2 ";
const std::string halving =
    "sweep tiny.yaml schedule.learning_rate=1e-5,1e-4,1e-3,1e-2 train.steps=16 "
    "train.validate_every=4 --halving 2 ";

TEST_CASE("a sweep trains a run for each combination and prints the best mean over seeds") {
  const SweepWorkplace work;
  check_words(work.out(seeds + "schedule.learning_rate=0.01,0.02 train.steps=8"),
              {"run-01  train.seed=1  schedule.learning_rate=0.01  step 8: best loss ",
               "\nschedule.learning_rate=0.01  2 runs: loss ",
               "\nbest mean: schedule.learning_rate=0.0", " over 2 runs; table: runs/tiny-sweep"});
  const std::string table = work.table();
  CHECK(
      table.starts_with("run,train.seed,schedule.learning_rate,state,steps,loss,best_step\n"
                        "run-01,1,0.01,finished,8,"));
  CHECK(contains(table, "\nrun-04,2,0.02,finished,8,"));
  CHECK(work.has("runs/tiny-sweep/report.html"));
  CHECK_FALSE(work.has("runs/tiny-sweep/run-01.err"));
  // The deviation of two values is their distance divided by the square root of 2.
  const auto number = [](const std::string& text, const std::string& begin, int field) {
    std::size_t at = text.find(begin);
    for (int i = 0; i < field; ++i) at = text.find(',', at) + 1;
    return std::stod(text.substr(at));
  };
  const std::string groups = work.read("runs/tiny-sweep/sweep-groups.csv");
  CHECK(groups.starts_with("schedule.learning_rate,runs,mean,deviation,low,high\n0.01,2,"));
  const double distance = number(table, "\nrun-01", 5) - number(table, "\nrun-03", 5);
  CHECK(number(groups, "\n0.01", 3) ==
        doctest::Approx(std::abs(distance) / std::sqrt(2.0)).epsilon(1e-9));
  // A run of the sweep equals a run of `train` with the same config.
  work.out("train tiny.yaml train.seed=2 schedule.learning_rate=0.01 train.steps=8");
  CHECK(work.read(work.of_run("run-03", "metrics.csv")) == work.read("runs/tiny/metrics.csv"));
}

TEST_CASE("a sweep continues its unfinished runs, and can be extended") {
  const SweepWorkplace work;
  const std::string sweep =
      "sweep tiny.yaml train.on_nan=rollback train.keep_last=100 train.seed=1..";
  REQUIRE(work.run(sweep + "3 --jobs 2 train.max_time=1h").code == 0);
  const std::string before = work.table();
  fs::remove_all(work / work.of_run("run-02", ""));
  // Run 3 was stopped before its first step.
  const auto checkpoints = work / work.of_run("run-03", "checkpoints");
  REQUIRE(fs::exists(checkpoints / "step-00000000.h5"));
  for (const auto& file : fs::directory_iterator(checkpoints)) {
    if (file.path().filename() != "step-00000000.h5") fs::remove(file);
  }
  fs::remove(work / "runs/tiny-sweep/sweep.csv");
  const auto written = [&] { return fs::last_write_time(work / work.of_run("run-01", work.last)); };
  const auto time = written();
  REQUIRE(work.run(sweep + "3").code == 0);
  CHECK(work.table() == before);
  CHECK(written() == time);
  // The number of threads and the kernels may change.
  const std::string kernels(compiled_kernels().front());  // a config cannot name the set "native"
  work.out(sweep + "3 train.threads=2 train.kernels=" + (kernels == "native" ? "auto" : kernels));
  CHECK(work.table() == before);
  CHECK(written() == time);
  work.out(sweep + "4");
  CHECK(work.table().starts_with(before));
  CHECK(contains(work.table(), "\nrun-04,4,finished,12,"));
}

TEST_CASE("existing runs of another sweep fail and remain unchanged") {
  const SweepWorkplace work;
  work.out(seeds);
  const auto before = work.read(work.of_run("run-01", "metrics.csv"));
  for (const std::string values : {"train.seed=2..3", "model.dropout=0,0.4"}) {
    CAPTURE(values);
    const Outcome other = work.run("sweep tiny.yaml " + values);
    CHECK(other.code == 2);
    CHECK(contains(other.out, "  failed with exit code 2: "));
    CHECK(work.read(work.of_run("run-01", "metrics.csv")) == before);
  }
  work.write("tiny.yaml", test::tiny_yaml + "optimizer: {weight_decay: 0.5}\n");
  CHECK(work.run(seeds).code == 2);
}

TEST_CASE("a run fails and is not counted if its folder contains a run with a different config") {
  const SweepWorkplace work;
  const auto exchange = [&](const std::string& a, const std::string& b) {
    fs::rename(work / "runs/tiny-sweep" / a, work / "t");
    fs::rename(work / "runs/tiny-sweep" / b, work / "runs/tiny-sweep" / a);
    fs::rename(work / "t", work / "runs/tiny-sweep" / b);
  };
  work.out(halving);
  exchange("run-02", "run-03");
  check_words(
      work.out(halving),
      {"run-02  schedule.learning_rate=1e-4  failed with exit code 2: runs/tiny-sweep/run-02"});
  check_words(work.table(), {"\nrun-02,1e-4,failed,", ",,\nrun-03,1e-3,failed,"});
  exchange("run-02", "run-03");
  work.out(halving);
  CHECK_FALSE(contains(work.table(), "failed"));

  // A link to another run fails, and so do two swapped runs whose configs differ only in keys that
  // may change on resume.
  fs::remove_all(work / "runs/tiny-sweep");
  work.out(seeds);
  fs::remove_all(work / "runs/tiny-sweep/run-02");
  fs::create_directory_symlink("run-01", work / "runs/tiny-sweep/run-02");
  check_words(work.out(seeds), {"run-02  train.seed=2  failed with exit code 2: ", "\ntable: "});
  check_words(work.table(), {"\nrun-01,1,finished,12,", "\nrun-02,2,failed,12,,\n"});
  const test::KindWorkplace kinds;
  kinds.write("other.txt", kinds.read("labels.txt") + "yes\tit rains\n");
  const std::string files = "sweep classes.yaml data.train_text=labels.txt,other.txt --output s";
  kinds.out(files);
  const std::string table = kinds.read("s/sweep.csv");
  kinds.out(files);
  CHECK(kinds.read("s/sweep.csv") == table);
  fs::rename(kinds / "s/run-01", kinds / "t");
  fs::rename(kinds / "s/run-02", kinds / "s/run-01");
  fs::rename(kinds / "t", kinds / "s/run-02");
  const Outcome exchanged = kinds.run(files);
  CHECK(exchanged.code == 2);
  CHECK(contains(exchanged.out, "s/run-01: found the run of data.train_text="));
}

TEST_CASE("successive halving keeps all seeds of the best setting") {
  const SweepWorkplace work;
  check_words(work.out("sweep tiny.yaml schedule.learning_rate=1e-5,1e-2 train.seed=1..2 "
                       "train.steps=8 train.validate_every=4 --halving 2"),
              {"4 runs to step 4\n", "2 runs to step 8\n",
               "\nbest mean: schedule.learning_rate=1e-2: loss ", " over 2 runs; "});
  check_words(work.table(), {"\nrun-01,1e-5,1,abandoned,4,", "\nrun-03,1e-2,1,finished,8,",
                             "\nrun-04,1e-2,2,fin"});
}

TEST_CASE("successive halving stops all but the best runs, even if files are damaged") {
  const SweepWorkplace work;
  check_words(work.out(halving),
              {"4 runs to step 4\n", "2 runs to step 8\n", "1 run to step 16\n"});
  const std::string table = work.table();
  check_words(table, {"\nrun-01,1e-5,abandoned,4,", ",finished,16,"});
  work.out(halving);
  CHECK(work.table() == table);

  // The metrics are also in the checkpoints.
  for (const std::string damaged : {"", "step,loss\n"}) {
    work.write(work.of_run("run-01", "metrics.csv"), damaged);
    work.out(halving);
    CHECK(work.table() == table);
  }
  fs::remove(work / work.of_run("run-04", "metrics.csv"));
  work.out(halving);
  CHECK(work.table() == table);

  // Runs are resumed even if all metrics.csv files are damaged.
  for (const std::string run : {"run-01", "run-02", "run-03", "run-04"}) {
    fs::remove(work / work.of_run(run, "checkpoints/step-00000016.h5"));
    work.write(work.of_run(run, "metrics.csv"), "step,loss\n");
  }
  work.out(halving);
  CHECK(contains(work.table(), ",finished,16,"));

  // A run whose checkpoints are damaged fails, and the best of the other runs finishes.
  const auto damage_checkpoints = [&](const std::string& run) {
    for (const auto& file : fs::directory_iterator(work / work.of_run(run, "checkpoints"))) {
      test::write_text(file.path(), "damaged");
    }
  };
  const std::string now = work.table();
  const std::string best = now.substr(now.rfind("run-", now.find(",finished,")), 6);
  damage_checkpoints(best);
  const std::string others = work.out(halving);
  CHECK(contains(others, best + "  schedule.learning_rate="));
  check_words(others, {"  failed with exit code 4: ", "\nbest: run-"});
  CHECK_FALSE(contains(others, "\nbest: " + best));
  CHECK(contains(work.table(), ",finished,16,"));

  // If no run finishes, the sweep fails.
  for (const std::string run : {"run-01", "run-02", "run-03", "run-04"}) damage_checkpoints(run);
  const Outcome failed = work.run(halving);
  CHECK(failed.code == 4);
  CHECK(contains(failed.out, "  failed with exit code 4: "));
  CHECK_FALSE(contains(failed.out, "best: "));
  CHECK_FALSE(contains(work.table(), ",finished,"));
}

TEST_CASE("neither a failed run nor a report that cannot be written ends the sweep") {
  const SweepWorkplace work;
  fs::create_directories(work / "runs/tiny-sweep/report.html/folder");
  const Outcome done = work.run(
      "sweep tiny.yaml schedule.learning_rate=0.01,10000 optimizer.kind=sgd optimizer.clip_norm=0");
  CHECK(done.code == 0);
  check_words(done.out,
              {"schedule.learning_rate=10000  failed with exit code 6: step ", "\nbest: run-01  "});
  CHECK(contains(done.err, "warning: the report of the sweep could not be written: "));
  CHECK(contains(work.table(), "\nrun-02,10000,failed,"));
  CHECK(contains(work.read("runs/tiny-sweep/run-02.err"), "error: step "));
}

TEST_CASE("a sweep that cannot print or cannot start a run ends its other runs before it fails") {
  const SweepWorkplace work;
  const Outcome unprinted = work.run(seeds + "--output out", test::Streams{.out = "/dev/full"});
  CHECK(unprinted.code == 5);
  CHECK(contains(unprinted.err, "standard output: could not be written: No space left on device"));
  CHECK(contains(work.read("out/sweep.csv"), "\nrun-02,2,finished,12,"));

  fs::create_directories(work / "runs/tiny-sweep/run-03.err");
  const Outcome failed = work.run(
      "sweep tiny.yaml train.steps=400,1000000000,500 train.validate_every=1000000000 "
      "train.save_every=1000000000 --jobs 2");
  CHECK(failed.code == 5);
  CHECK(contains(failed.err, "runs/tiny-sweep/run-03.err: could not start the run: "));
  CHECK_FALSE(fs::is_empty(work / work.of_run("run-02", "checkpoints")));
}

TEST_CASE("if a run is locked, a sweep trains the other runs first") {
  const SweepWorkplace work;
  const auto locked = work / "runs/tiny-sweep/run-01";
  fs::create_directories(locked);
  std::optional<RunLock> lock(std::in_place, locked);
  const auto output = work.stream("sweep");
  test::Process sweep(work.path(), seeds, test::Streams{.out = output});
  for (int tries = 0;
       tries < 1000 && !contains(test::read_text(output), "run-02  train.seed=2  step 12");
       ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
  }
  lock.reset();
  CHECK(sweep.wait() == 0);
  const std::string text = test::read_text(output);
  CHECK(
      text.starts_with("run-01  train.seed=1  waits for another process that is training the run\n"
                       "run-02  train.seed=2  step 12: "));
  CHECK(contains(text, "\nrun-01  train.seed=1  step 12: "));
}

TEST_CASE("a sweep does not write into a run or a folder with other files") {
  const SweepWorkplace work;
  work.out("train tiny.yaml train.steps=1 train.run_dir=run");
  std::filesystem::create_directory(work / "photos");
  work.write("photos/a.jpg", "mine");
  check_rows(work, {{seeds + "--output run", 2, {"run: found a run, expected a new or empty"}},
                    {seeds + "--output photos", 2, {"photos: found the file a.jpg"}}});
}

TEST_CASE("mistakes in a sweep are rejected before anything is written") {
  check_rows(SweepWorkplace(),
             {{"sweep tiny.yaml train.seed=1", 2, {"found no key with several values"}},
              {seeds + "--halving 1", 2, {"--halving: found 1, expected 0 or a factor of at"}},
              {"sweep tiny.yaml model.dropout=0..0.3", 2, {"model.dropout=0,0.15,0.3"}},
              {seeds + "model.d_modl=8", 2, {"model.d_modl=8: unknown key", "`d_model`"}},
              {"sweep tiny.yaml train.seeed=1..2", 2, {"train.seeed=1: unknown key `seeed`"}},
              {seeds + "train.run_dir=mine", 2, {"train.run_dir=mine: found a run directory"}},
              {seeds + "train.run_dir=a,b", 2, {"--output FOLDER"}},
              {"sweep tiny.yaml model.dropout=0.1,2", 2, {"model.dropout=2"}},
              {"sweep tiny.yaml train.steps=4,8 --halving 2", 2, {"train.steps"}},
              {"sweep tiny.yaml train.best_metric=loss,token_accuracy", 2, {"train.best_metric"}}});
}

}  // namespace
}  // namespace tapestry
