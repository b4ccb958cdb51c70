#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "tests/support/contains.h"
#include "tests/train/kind_configs.h"
#include "tests/train/refusal.h"
#include "train/system/machine.h"

/// `tapestry plan`. The measurements themselves: tests/train/plan/run_plan_test.cpp.
namespace tapestry {
namespace {

using nlohmann::json;
using test::Arguments;
using test::check_refusal;
using test::contains;
using test::KindWorkplace;
using test::Outcome;
using test::TextWorkplace;
using test::TrainedWorkplace;
using test::Workplace;

struct TinyWorkplace : Workplace {
  TinyWorkplace() { write("tiny.yaml", test::tiny_yaml); }
};

TEST_CASE("a plan describes the run line by line and writes nothing") {
  const TinyWorkplace work;
  const auto before = work.contents();
  const Outcome done = work.run({"plan", "tiny.yaml", "--seconds", "1"});
  CHECK(done.code == 0);
  CHECK(done.err.empty());
  for (const char* line :
       {"\nmodel: ", "\nblocks: ", "\nmemory: about ",
        "\npeak memory: ", "\nepoch: 6 steps of 1 batch; ", "; 2.00 epochs in 12 steps\n",
        "\nstep: ", "\n  waiting for batches ", "\nthreads: ", "\nvalidation: 2 x, scores ",
        " and decoding of 6 sequences ", "\ncheckpoints: ", "\ntime: ", "\nlimits:"}) {
    CAPTURE(line);
    CHECK(contains(done.out, line));
  }
  // On one core there are no other numbers of threads to compare.
  const bool one_core = read_cores().allowed == 1;
  CHECK(contains(done.out, "\nthreads: time of a step with 1: ") == !one_core);
  CHECK(contains(done.out, " (set)") == !one_core);
  CHECK(contains(done.out, "\nthreads: 1; there is one core\n") == one_core);
  CHECK(done.out.starts_with("data: 22 training pairs, 6 validation, 4 test; "));
  CHECK(!contains(done.out, "\nprocesses: "));
  CHECK(work.contents() == before);
}

TEST_CASE("a plan describes the run in the words of the run") {
  const TinyWorkplace work;
  const std::string plan = work.run({"plan", "tiny.yaml", "--seconds", "0.02"}).out;
  const std::string dry = work.run({"train", "tiny.yaml", "--dry-run"}).out;
  const std::string described = dry.substr(0, dry.find("\nmemory: "));
  CHECK(plan.starts_with(described + "\nmemory: "));
}

TEST_CASE("every kind of model can be planned, as text and as JSON") {
  const KindWorkplace work;
  const auto before = work.contents();
  for (const auto& kind : test::kind_configs) {
    CAPTURE(kind.name);
    const Arguments arguments{"plan", kind.name + ".yaml", "--seconds", "0.02"};
    const Outcome text = work.run(arguments);
    CHECK_MESSAGE(text.code == 0, text.err);
    CHECK(contains(text.out, kind.examples));
    Arguments as_json = arguments;
    as_json.emplace_back("--json");
    const Outcome done = work.run(as_json);
    CHECK_MESSAGE(done.code == 0, done.err);
    const json plan = json::parse(done.out);
    CHECK(plan.at("steps") == 12);
    CHECK(plan.at("run_dir") == "runs/" + kind.name);
    CHECK(plan.at("model").at("parameters") > 0);
    CHECK(plan.at("validation").at("times") == 2);
    CHECK(plan.at("step").at("seconds") > 0.0);
    CHECK(plan.at("time").at("seconds") > plan.at("time").at("step_seconds"));
    CHECK(plan.at("memory").at("peak_bytes") > 0);
    CHECK(plan.at("checkpoints").at("bytes") > 0);
    CHECK(plan.at("epoch").contains("padding") == (kind.name != "images"));
    CHECK(plan.at("processes").is_null());
  }
  CHECK(work.contents() == before);
}

TEST_CASE("the parameters in a plan are those of the run's checkpoint") {
  const TrainedWorkplace work;
  const json plan = json::parse(
      work.run({"plan", "tiny.yaml", "train.run_dir=new", "--json", "--seconds", "0.02"}).out);
  const json inspected = json::parse(work.run({"inspect", "runs/tiny", "--json"}).out);
  CHECK(plan.at("model") == inspected.at("model"));
}

TEST_CASE("--processes divides a step among processes") {
  const TinyWorkplace work;
  const Outcome text = work.run(
      {"plan", "tiny.yaml", "train.accumulate=8", "--processes", "3", "--seconds", "0.02"});
  CHECK(text.code == 0);
  CHECK(contains(text.out, "; processes: 3; threads: "));
  CHECK(contains(text.out, "\nprocesses: 3 of 2 to 3 micro-batches each; "));
  CHECK(contains(text.out, "\n  memory of a process: "));
  check_refusal(work, {"plan", "tiny.yaml", "--processes", "2"}, 2,
                "train.accumulate: found 1, expected at least 2, the number of processes, which "
                "divide the batches of a step\nhint: start fewer processes, or set "
                "train.accumulate=2 and divide train.batch_size by 2");
}

TEST_CASE("a plan of epochs has their steps, and one with a pretrained model loads it") {
  const TrainedWorkplace work;
  const json plan = json::parse(work.run({"plan", "tiny.yaml", "train.run_dir=new",
                                          "train.epochs=3", "--json", "--seconds", "0.02"})
                                    .out);
  CHECK(plan.at("steps") == 18);
  const Outcome done = work.run({"plan", "tiny.yaml", "train.run_dir=new", "--seconds", "0.02",
                                 "train.initialize_from=runs/tiny"});
  CHECK(done.code == 0);
  CHECK(done.out.starts_with("initialized from "));
}

TEST_CASE("a plan fails as the run would") {
  const TextWorkplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  work.write("long.de", "a b c d e f g h\n");
  for (const Arguments& arguments :
       {Arguments{"tiny.yaml", "model.d_model=3"}, Arguments{"tiny.yaml", "model.d_modl=3"},
        Arguments{"missing.yaml"}, Arguments{"text.yaml", "data.train_source=missing"},
        Arguments{"text.yaml", "data.validation_source=long.de"},
        Arguments{"tiny.yaml", "train.initialize_from=nothing"},
        Arguments{"tiny.yaml", "data.validation_size=0", "train.patience=3"}}) {
    CAPTURE(arguments.back());
    Arguments plan{"plan"}, train{"train", "--dry-run"};
    plan.insert(plan.end(), arguments.begin(), arguments.end());
    train.insert(train.end(), arguments.begin(), arguments.end());
    const auto before = work.contents();
    const Outcome planned = work.run(plan), tried = work.run(train);
    CHECK(planned.code != 0);
    CHECK(planned.code == tried.code);
    CHECK(planned.err == tried.err);
    CHECK(planned.out.empty());
    CHECK(work.contents() == before);
  }
}

TEST_CASE("a plan in the directory of a run says that train rejects it") {
  const TrainedWorkplace work;
  const auto before = work.contents();
  const Outcome done = work.run({"plan", "tiny.yaml", "--seconds", "0.02"});
  CHECK(done.code == 0);
  CHECK(contains(
      done.out, "\nlimits:\n  train rejects the run directory: runs/tiny: already contains a run"));
  CHECK(work.contents() == before);
  CHECK(!contains(work.run({"plan", "tiny.yaml", "--seconds", "0.02", "train.run_dir=new"}).out,
                  "rejects"));
}

TEST_CASE("SIGINT ends a plan at once") {
  const TinyWorkplace work;
  const auto before = work.contents();
  test::Process process(work.path(), {"plan", "tiny.yaml", "train.accumulate=100000"}, {});
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  process.send(SIGINT);
  CHECK(process.wait() == -SIGINT);
  CHECK(work.contents() == before);
}

TEST_CASE("mistakes on the command line of plan are refused") {
  const TinyWorkplace work;
  const std::string help = "\nhint: see `tapestry plan --help`";
  check_refusal(work, {"plan"}, 2, "command line: CONFIG is required" + help);
  check_refusal(work, {"plan", ""}, 2,
                "command line: CONFIG: found an empty text, expected a path" + help);
  check_refusal(work, {"plan", "tiny.yaml", "--seconds", "0"}, 2,
                "command line: --seconds: expected a number in [0.01, 3600], found \"0\"" + help);
  check_refusal(work, {"plan", "tiny.yaml", "--processes", "0"}, 2,
                "command line: --processes: expected a whole number from 1 to 1000000, found "
                "\"0\"" +
                    help);
}

}  // namespace
}  // namespace tapestry
