// SPDX-License-Identifier: BSD-3-Clause
#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "tests/train/kinds.h"
#include "train/system/cores.h"

/// Tests `tapestry plan`; tests/train/plan/run_plan_test.cpp tests the measurements.
namespace tapestry {
namespace {

using nlohmann::json;
using test::check_words;
using test::contains;
using test::TinyWorkplace;
using test::TrainedWorkplace;

TEST_CASE("a plan prints the same description of the run as a dry run, and writes nothing") {
  const TinyWorkplace work;
  const auto before = work.contents();
  const std::string plan = work.out("plan tiny.yaml --seconds 1");
  check_words(plan, {"\nblocks: ", "\npeak memory: ", "\nepoch: 6 steps of 1 batch; ",
                     "; 2.00 epochs in 12 steps\n", "\nstep: ", "\n  waiting for batches ",
                     "\nthreads: ", "\nvalidation: 2 times, each ", " for decoding 6 sequences\n",
                     "\ncheckpoints: ", "\ntime: ", "\nlimits:"});
  // On a single core, no other number of threads can be compared.
  const bool one_core = read_cores().allowed == 1;
  CHECK(contains(plan, "\nthreads: a step takes ") == !one_core);
  CHECK(contains(plan, "\nthreads: 1; there is one core\n") == one_core);
  CHECK(!contains(plan, "\nprocesses: "));
  CHECK(work.contents() == before);
  const std::string dry = work.out("train tiny.yaml --dry-run");
  CHECK(plan.starts_with(dry.substr(0, dry.find("\nmemory: ")) + "\nmemory: about "));
}

TEST_CASE("plan supports every kind of model, with text and JSON output") {
  const test::KindWorkplace work;
  const auto before = work.contents();
  for (const auto& kind : test::kind_configs) {
    CAPTURE(kind.name);
    const std::string command = "plan --seconds 0.02 " + kind.name + ".yaml";
    CHECK(contains(work.out(command), kind.examples));
    const json plan = json::parse(work.out(command + " --json"));
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

TEST_CASE("a plan takes epochs, processes and the pretrained model of the run into account") {
  const TrainedWorkplace work;
  const auto before = work.contents();
  const std::string plan = "plan tiny.yaml --seconds 0.02 ", new_run = plan + "train.run_dir=new ";
  const json epochs = json::parse(work.out(new_run + "--json train.epochs=3"));
  CHECK(epochs.at("steps") == 18);
  const json inspected = json::parse(work.run("inspect runs/tiny --json").out);
  CHECK(epochs.at("model") == inspected.at("model"));
  CHECK(work.run(new_run + "train.initialize_from=runs/tiny").out.starts_with("initialized from "));
  check_words(work.out(plan), {"\nlimits:\n  train rejects the run directory: runs/tiny: already"});
  const std::string several = work.out(new_run + "train.accumulate=8 --processes 3");
  CHECK(!contains(several, "rejects"));
  check_words(several,
              {"; processes: 3; threads: ", "\nprocesses: 3 with 2 to 3 micro-batches each; ",
               "\n  memory per process: "});
  check_rows(work,
             {{plan + "--processes 2", 2, {"train.accumulate: found 1, expected at least 2"}},
              {plan + "--processes 0", 2, {"--processes: expected a whole number from 1"}},
              {"plan tiny.yaml --seconds 0", 2, {"--seconds: expected a number in [0.01, 3600]"}},
              {"plan", 2, {"CONFIG is required"}}});
  CHECK(work.contents() == before);
}

TEST_CASE("a plan lists a warm-up longer than the run as a limit, whichever keys cause it") {
  const TinyWorkplace work;
  for (const std::string way :
       {"schedule.warmup_steps=13", "train.epochs=2 schedule.warmup_steps=13", "train.steps=3",
        "schedule.kind=linear_warmup train.steps=3"}) {
    CAPTURE(way);
    const std::string out = work.out("plan tiny.yaml --seconds 0.01 " + way);
    const std::size_t limits = out.find("\nlimits:\n");
    REQUIRE(limits != out.npos);
    CHECK(contains(out.substr(limits), "warm-up of "));
    CHECK(contains(out.substr(limits), "\n    lower schedule.warmup_steps"));
  }
  CHECK_FALSE(contains(work.out("plan tiny.yaml --seconds 0.01"), "warm-up"));
  CHECK_FALSE(contains(work.out("plan tiny.yaml --seconds 0.01 train.steps=1000 "
                                "schedule.warmup_steps=100%"),
                       "warm-up"));
}

TEST_CASE("a plan fails with the same error as the run") {
  const test::TextWorkplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  work.write("long.de", "a b c d e f g h\n");
  for (const std::string arguments :
       {"tiny.yaml model.d_model=3", "tiny.yaml model.d_modl=3", "missing.yaml",
        "text.yaml data.train_source=missing", "text.yaml data.validation_source=long.de",
        "tiny.yaml train.initialize_from=nothing",
        "tiny.yaml data.validation_size=0 train.patience=3"}) {
    CAPTURE(arguments);
    const test::Outcome planned = work.run("plan " + arguments);
    const test::Outcome tried = work.run("train --dry-run " + arguments);
    CHECK(planned.code != 0);
    CHECK(planned.code == tried.code);
    CHECK(planned.err == tried.err);
    CHECK(planned.out.empty());
  }
  CHECK_FALSE(work.has("runs"));
}

TEST_CASE("SIGINT ends a plan immediately") {
  const TinyWorkplace work;
  const auto before = work.contents();
  test::Process process(work.path(), "plan tiny.yaml train.accumulate=100000", {});
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  process.send(SIGINT);
  CHECK(process.wait() == -SIGINT);
  CHECK(work.contents() == before);
}

}  // namespace
}  // namespace tapestry
