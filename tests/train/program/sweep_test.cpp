#include <doctest/doctest.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>

#include "autograd/instruction_set.h"
#include "tests/support/contains.h"
#include "tests/train/refusal.h"
#include "train/checkpoint/run_directory.h"

/// `tapestry sweep`, and `tapestry train --until`.
namespace tapestry {
namespace {

using test::check_refusal;
using test::contains;
using test::Outcome;
using test::read_text;

struct SweepWorkplace : test::Workplace {
  SweepWorkplace() { write("tiny.yaml", test::tiny_yaml); }
};

TEST_CASE("a sweep trains a run for each combination and names the best one") {
  const SweepWorkplace work;
  const Outcome done = work.run({"sweep", "tiny.yaml", "train.seed=1..2",
                                 "schedule.learning_rate=0.01,0.02", "train.steps=8"});
  CHECK(done.code == 0);
  CHECK(done.err.empty());
  CHECK(
      contains(done.out, "run-01  train.seed=1  schedule.learning_rate=0.01  step 8: best loss "));
  CHECK(contains(done.out, "\nschedule.learning_rate=0.01  2 runs: loss "));
  CHECK(contains(done.out, "\nbest: run-0"));
  const std::string table = read_text(work / "runs/tiny-sweep/sweep.csv");
  CHECK(
      table.starts_with("run,train.seed,schedule.learning_rate,state,steps,loss,best_step\n"
                        "run-01,1,0.01,finished,8,"));
  CHECK(contains(table, "\nrun-04,2,0.02,finished,8,"));
  CHECK(std::filesystem::exists(work / "runs/tiny-sweep/report.html"));
  const std::string groups = read_text(work / "runs/tiny-sweep/sweep-groups.csv");
  CHECK(groups.starts_with("schedule.learning_rate,runs,mean,deviation,low,high\n0.01,2,"));
  CHECK_FALSE(std::filesystem::exists(work / "runs/tiny-sweep/run-01.err"));
  // A run of the sweep is that of the same config.
  REQUIRE(work.run({"train", "tiny.yaml", "train.seed=2", "schedule.learning_rate=0.01",
                    "train.steps=8"})
              .code == 0);
  CHECK(read_text(work / "runs/tiny-sweep/run-03/metrics.csv") ==
        read_text(work / "runs/tiny/metrics.csv"));
}

TEST_CASE("a sweep continues its unfinished runs, and can be extended") {
  const SweepWorkplace work;
  const test::Arguments sweep = {"sweep", "tiny.yaml", "train.seed=1..3", "--jobs", "2"};
  REQUIRE(work.run(sweep).code == 0);
  const auto table = work / "runs/tiny-sweep/sweep.csv";
  const std::string before = read_text(table);
  std::filesystem::remove_all(work / "runs/tiny-sweep/run-02");
  std::filesystem::remove(work / "runs/tiny-sweep/run-03/checkpoints/step-00000012.h5");
  std::filesystem::remove(table);
  const auto written = std::filesystem::last_write_time(
      work / "runs/tiny-sweep/run-01/checkpoints/step-00000012.h5");
  REQUIRE(work.run(sweep).code == 0);
  CHECK(read_text(table) == before);
  CHECK(std::filesystem::last_write_time(
            work / "runs/tiny-sweep/run-01/checkpoints/step-00000012.h5") == written);
  const Outcome longer = work.run({"sweep", "tiny.yaml", "train.seed=1..4"});
  CHECK(longer.code == 0);
  CHECK(read_text(table).starts_with(before));
  CHECK(contains(read_text(table), "\nrun-04,4,finished,12,"));
}

TEST_CASE("a sweep continues with other settings of the process") {
  const SweepWorkplace work;
  const test::Arguments sweep = {"sweep", "tiny.yaml", "train.seed=1..2"};
  const auto with = [&](const std::string& setting) {
    test::Arguments arguments = sweep;
    arguments.push_back(setting);
    return arguments;
  };
  REQUIRE(work.run(with("train.max_time=1h")).code == 0);
  const std::string before = read_text(work / "runs/tiny-sweep/sweep.csv");
  CHECK(work.run(sweep).code == 0);
  CHECK(work.run(with("train.threads=2")).code == 0);
  const std::string kernels(compiled_kernels().front());  // a config cannot name the set "native"
  CHECK(work.run(with("train.kernels=" + (kernels == "native" ? "auto" : kernels))).code == 0);
  CHECK(read_text(work / "runs/tiny-sweep/sweep.csv") == before);
}

TEST_CASE("runs of another sweep in the folder fail and stay as they are") {
  const SweepWorkplace work;
  REQUIRE(work.run({"sweep", "tiny.yaml", "train.seed=1..2"}).code == 0);
  const auto before = read_text(work / "runs/tiny-sweep/run-01/metrics.csv");
  for (const char* override : {"train.seed=2..3", "model.dropout=0,0.4"}) {
    CAPTURE(override);
    const Outcome other = work.run({"sweep", "tiny.yaml", override});
    CHECK(other.code == 2);
    CHECK(contains(other.out, "  failed with exit code 2: "));
    CHECK(read_text(work / "runs/tiny-sweep/run-01/metrics.csv") == before);
  }
  work.write("tiny.yaml", std::string(test::tiny_yaml) + "optimizer: {weight_decay: 0.5}\n");
  CHECK(work.run({"sweep", "tiny.yaml", "train.seed=1..2"}).code == 2);
}

TEST_CASE("a sweep continues a run that was stopped before its first step") {
  const SweepWorkplace work;
  const test::Arguments sweep = {"sweep", "tiny.yaml", "train.seed=1..2", "train.on_nan=rollback",
                                 "train.keep_last=100"};
  REQUIRE(work.run(sweep).code == 0);
  const auto table = work / "runs/tiny-sweep/sweep.csv";
  const std::string before = read_text(table);
  std::filesystem::remove(table);
  const auto checkpoints = work / "runs/tiny-sweep/run-02/checkpoints";
  REQUIRE(std::filesystem::exists(checkpoints / "step-00000000.h5"));
  for (const auto& file : std::filesystem::directory_iterator(checkpoints)) {
    if (file.path().filename() != "step-00000000.h5") std::filesystem::remove(file);
  }
  REQUIRE(work.run(sweep).code == 0);
  CHECK(read_text(table) == before);
}

TEST_CASE("successive halving stops all but the best runs") {
  const SweepWorkplace work;
  const test::Arguments sweep = {"sweep",
                                 "tiny.yaml",
                                 "schedule.learning_rate=1e-5,1e-4,1e-3,1e-2",
                                 "train.steps=16",
                                 "train.validate_every=4",
                                 "--halving",
                                 "2",
                                 "--output",
                                 "out"};
  const Outcome done = work.run(sweep);
  CHECK(done.code == 0);
  CHECK(contains(done.out, "4 runs to step 4\n"));
  CHECK(contains(done.out, "2 runs to step 8\n"));
  CHECK(contains(done.out, "1 run to step 16\n"));
  const std::string table = read_text(work / "out/sweep.csv");
  CHECK(contains(table, "\nrun-01,1e-5,abandoned,4,"));
  CHECK(contains(table, ",finished,16,"));
  REQUIRE(work.run(sweep).code == 0);
  CHECK(read_text(work / "out/sweep.csv") == table);
}

TEST_CASE("a run that fails does not end the sweep") {
  const SweepWorkplace work;
  const Outcome done = work.run({"sweep", "tiny.yaml", "schedule.learning_rate=0.01,10000",
                                 "optimizer.kind=sgd", "optimizer.clip_norm=0"});
  CHECK(done.code == 0);
  CHECK(contains(done.out, "schedule.learning_rate=10000  failed with exit code 6: step "));
  CHECK(contains(read_text(work / "runs/tiny-sweep/sweep.csv"), "\nrun-02,10000,failed,"));
  CHECK(contains(read_text(work / "runs/tiny-sweep/run-02.err"), "error: step "));
  CHECK(contains(done.out, "\nbest: run-01  "));
}

TEST_CASE("a sweep in which no run finishes fails, although some were stopped") {
  const SweepWorkplace work;
  const test::Arguments sweep = {"sweep",
                                 "tiny.yaml",
                                 "schedule.learning_rate=1e-5,1e-4,1e-3,1e-2",
                                 "train.steps=16",
                                 "train.validate_every=4",
                                 "--halving",
                                 "2"};
  REQUIRE(work.run(sweep).code == 0);
  const std::string before = read_text(work / "runs/tiny-sweep/sweep.csv");
  const std::string finished = before.substr(before.rfind("run-", before.find(",finished,")), 6);
  const auto checkpoints = work / ("runs/tiny-sweep/" + finished + "/checkpoints");
  std::filesystem::remove(checkpoints / "step-00000016.h5");
  for (const auto& file : std::filesystem::directory_iterator(checkpoints)) {
    test::write_text(file.path(), "damaged");
  }
  const Outcome failed = work.run(sweep);
  CHECK(failed.code == 4);
  CHECK(contains(failed.out, "  failed with exit code 4: "));
  CHECK_FALSE(contains(failed.out, "best: "));
  CHECK_FALSE(contains(read_text(work / "runs/tiny-sweep/sweep.csv"), ",finished,"));
}

TEST_CASE("a damaged metrics.csv fails one run of a sweep") {
  const SweepWorkplace work;
  const test::Arguments sweep = {"sweep",
                                 "tiny.yaml",
                                 "schedule.learning_rate=1e-5,1e-4,1e-3,1e-2",
                                 "train.steps=16",
                                 "train.validate_every=4",
                                 "--halving",
                                 "2"};
  REQUIRE(work.run(sweep).code == 0);
  work.write("runs/tiny-sweep/run-01/metrics.csv", "step,loss\n");
  const Outcome done = work.run(sweep);
  CHECK(done.code == 0);
  CHECK(contains(done.out,
                 "run-01  schedule.learning_rate=1e-5  failed with exit code 4: "
                 "runs/tiny-sweep/run-01/metrics.csv: "));
  CHECK(contains(read_text(work / "runs/tiny-sweep/sweep.csv"), "\nrun-01,1e-5,failed,4,,\n"));
  CHECK(contains(done.out, "\nbest: run-0"));
}

TEST_CASE("a sweep ends its runs although its output cannot be written") {
  const SweepWorkplace work;
  const Outcome done =
      work.run({"sweep", "tiny.yaml", "train.seed=1..3"}, test::Streams{.out = "/dev/full"});
  CHECK(done.code == 5);
  CHECK(contains(done.err, "standard output: could not be written: No space left on device"));
  CHECK(contains(read_text(work / "runs/tiny-sweep/sweep.csv"), "\nrun-03,3,finished,12,"));
}

TEST_CASE("a sweep that cannot start a run saves the others before it fails") {
  const SweepWorkplace work;
  std::filesystem::create_directories(work / "runs/tiny-sweep/run-03.err");
  const Outcome failed =
      work.run({"sweep", "tiny.yaml", "train.steps=400,1000000000,500",
                "train.validate_every=1000000000", "train.save_every=1000000000", "--jobs", "2"});
  CHECK(failed.code == 5);
  CHECK(contains(failed.err, "runs/tiny-sweep/run-03.err: could not start the run: "));
  CHECK_FALSE(std::filesystem::is_empty(work / "runs/tiny-sweep/run-02/checkpoints"));
}

TEST_CASE("a sweep trains other runs while another process locks one, and then that one") {
  const SweepWorkplace work;
  const auto locked = work / "runs/tiny-sweep/run-01";
  std::filesystem::create_directories(locked);
  std::optional<RunLock> lock(std::in_place, locked);
  const auto output = work.stream("sweep");
  test::Process sweep(work.path(), {"sweep", "tiny.yaml", "train.seed=1..2"},
                      test::Streams{.out = output});
  for (int tries = 0; tries < 1000 && !contains(read_text(output), "run-02  train.seed=2  step 12");
       ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
  }
  lock.reset();
  CHECK(sweep.wait() == 0);
  const std::string text = read_text(output);
  CHECK(
      text.starts_with("run-01  train.seed=1  waits for another process, which trains it\n"
                       "run-02  train.seed=2  step 12: "));
  CHECK(contains(text, "\nrun-01  train.seed=1  step 12: "));
}

TEST_CASE("a sweep prints its results although it cannot write the report") {
  const SweepWorkplace work;
  std::filesystem::create_directories(work / "runs/tiny-sweep/report.html/folder");
  const Outcome done = work.run({"sweep", "tiny.yaml", "train.seed=1..2"});
  CHECK(done.code == 0);
  CHECK(contains(done.out, "\nbest: run-0"));
  CHECK(done.err.starts_with("tapestry: warning: the report of the sweep could not be written: "));
}

TEST_CASE("a run that fails in one stage and succeeds in the next one has not failed") {
  const SweepWorkplace work;
  const test::Arguments sweep = {"sweep",
                                 "tiny.yaml",
                                 "schedule.learning_rate=1e-5,1e-4,1e-3,1e-2",
                                 "train.steps=16",
                                 "train.validate_every=4",
                                 "--halving",
                                 "2"};
  REQUIRE(work.run(sweep).code == 0);
  // All runs fail in the first stage. Two of them are resumed nevertheless, from checkpoints, which
  // have their metrics.
  for (int run = 1; run <= 4; ++run) {
    std::filesystem::remove(work / ("runs/tiny-sweep/run-0" + std::to_string(run)) /
                            "checkpoints/step-00000016.h5");
    work.write("runs/tiny-sweep/run-0" + std::to_string(run) + "/metrics.csv", "step,loss\n");
  }
  CHECK(work.run(sweep).code == 0);
  CHECK(contains(read_text(work / "runs/tiny-sweep/sweep.csv"), ",finished,16,"));
}

TEST_CASE("mistakes in a sweep are refused before anything is written") {
  const SweepWorkplace work;
  check_refusal(work, {"sweep", "tiny.yaml", "train.seed=1"}, 2,
                "command line: found no key with several values, expected at least one\n"
                "hint: write one, such as schedule.learning_rate=1e-4,3e-4 or train.seed=1..5");
  check_refusal(work, {"sweep", "tiny.yaml", "train.seed=1..2", "--halving", "1"}, 2,
                "command line: --halving: found 1, expected 0 or a factor of at least 2\n"
                "hint: --halving 2 keeps the better half of the runs");
  check_refusal(work, {"sweep", "tiny.yaml", "train.seed=1..2", "model.d_modl=8"}, 2,
                "command line: model.d_modl=8: unknown key `d_modl` in `model`\n"
                "hint: did you mean `d_model`?");
  check_refusal(work, {"sweep", "tiny.yaml", "train.seeed=1..2"}, 2,
                "command line: train.seeed=1: unknown key `seeed` in `train`\n"
                "hint: did you mean `seed`?");
  for (const std::string run_dir : {"train.run_dir=mine", "train.run_dir=a,b"}) {
    check_refusal(work, {"sweep", "tiny.yaml", "train.seed=1..2", run_dir}, 2,
                  "command line: " + run_dir +
                      ": found a run directory, expected none: a sweep makes one for each run\n"
                      "hint: choose the folder of the runs with --output FOLDER");
  }
  CHECK(work.run({"sweep", "tiny.yaml", "model.dropout=0.1,2"}).code == 2);
  CHECK(work.run({"sweep", "tiny.yaml", "train.steps=4,8", "--halving", "2"}).code == 2);
  CHECK(work.run({"sweep", "tiny.yaml", "train.best_metric=loss,token_accuracy"}).code == 2);
  CHECK_FALSE(std::filesystem::exists(work / "runs/tiny-sweep"));
}

TEST_CASE("train --until saves and stops after a step, and the run can be resumed") {
  const SweepWorkplace work;
  REQUIRE(work.run({"train", "tiny.yaml", "train.run_dir=whole"}).code == 0);
  const Outcome part = work.run({"train", "tiny.yaml", "train.run_dir=parts", "--until", "5"});
  CHECK(part.code == 0);
  CHECK(contains(part.out, "stopped by --until and saved at step 5; resume with: "));
  CHECK(contains(work.run({"train", "--resume", "parts", "--until", "3"}).out, "saved at step 5"));
  REQUIRE(work.run({"train", "--resume", "parts"}).code == 0);
  for (const char* file : {"metrics.csv", "checkpoints/step-00000012.h5"}) {
    CHECK(read_text(work / "parts" / file) == read_text(work / "whole" / file));
  }
}

}  // namespace
}  // namespace tapestry
