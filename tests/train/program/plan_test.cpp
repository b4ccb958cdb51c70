#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "tests/support/contains.h"
#include "tests/train/kind_configs.h"
#include "tests/train/refusal.h"
#include "train/platform/machine.h"

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
        "\nstep: ", "\n  waiting for batches ", "\nthreads: ", "\nvalidation: 2 times, scores ",
        " and decoding of 6 sequences ", "\nsaving: 3 to 4 times, ", "\ntime: ", "\nlimits:"}) {
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
    CHECK(plan.at("saving").at("checkpoint_bytes") > 0);
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
  const Arguments three{"plan",      "tiny.yaml", "train.accumulate=8", "--processes", "3",
                        "--seconds", "0.02"};
  const Outcome text = work.run(three);
  CHECK(text.code == 0);
  CHECK(contains(text.out, "; processes: 3; threads: "));
  CHECK(contains(text.out, "\nprocesses: 3 of 2 to 3 micro-batches each; "));
  CHECK(contains(text.out, "; processes wait 11.1 % of the time of gradients\n"));
  Arguments as_json = three;
  as_json.emplace_back("--json");
  const json plan = json::parse(work.run(as_json).out);
  CHECK(plan.at("processes").at("micro_batches") == json({2, 3, 3}));
  const auto gradient = 4 * plan.at("model").at("parameters").get<std::uint64_t>();
  CHECK(plan.at("processes").at("least_sent_bytes") == gradient / 3 * 2 * 2);
  check_refusal(work, {"plan", "tiny.yaml", "--processes", "2"}, 2,
                "train.accumulate: found 1, expected at least 2, the number of processes, which "
                "divide the batches of a step\nhint: start fewer processes, or set "
                "train.accumulate=2 and divide train.batch_size by 2");
}

TEST_CASE("--processes simulates a step on a network, with the memory of a process") {
  const TinyWorkplace work;
  const auto plan_for = [&](const Arguments& network) {
    Arguments arguments{"plan", "tiny.yaml", "train.accumulate=8", "--processes", "4", "--seconds",
                        "0.02", "--json"};
    arguments.insert(arguments.end(), network.begin(), network.end());
    return json::parse(work.run(arguments).out).at("processes");
  };
  const json slow = plan_for({"--bandwidth", "0.001", "--latency", "100000"});
  const json fast = plan_for({"--bandwidth", "1000", "--latency", "0"});
  CHECK(slow.at("step_seconds") > 1.0);  // 5 x 2 log2(4) messages of 0.1 s
  CHECK(fast.at("step_seconds") < slow.at("step_seconds"));
  CHECK(fast.at("efficiency") > slow.at("efficiency"));
  CHECK(fast.at("exchange_seconds") < slow.at("exchange_seconds"));
  CHECK(fast.at("memory_bytes") > 0);
  const Outcome text = work.run({"plan", "tiny.yaml", "train.accumulate=8", "--processes", "4",
                                 "--seconds", "0.02", "--bandwidth", "25", "--compute", "0.5"});
  CHECK(contains(text.out,
                 "\n  simulated for 25 Gbit/s and 50 us, micro-batches of 500 ms: a step takes "));
  CHECK(contains(text.out, "\n  memory of a process: "));
}

TEST_CASE("--scaling simulates 1 to 1,024 processes with constant work for each") {
  const TinyWorkplace work;
  const Arguments arguments{"plan", "tiny.yaml", "--scaling", "--seconds", "0.02"};
  const Outcome text = work.run(arguments);
  CHECK(text.code == 0);
  CHECK(contains(text.out,
                 "\nscaling: simulated for 1 micro-batch in each process, and 10 Gbit/s "
                 "and 50 us; efficiency of other networks\n  processes "));
  CHECK(contains(text.out, "\n          1 "));
  CHECK(contains(text.out, "\n       1024 "));
  Arguments as_json = arguments;
  as_json.emplace_back("--json");
  const json networks = json::parse(work.run(as_json).out).at("scaling");
  REQUIRE(networks.size() == 4);
  CHECK(networks[0].at("gbit_per_second") == 10.0);
  CHECK(networks[3].at("network") == "InfiniBand HDR");
  const json rows = networks[0].at("steps");
  REQUIRE(rows.size() == 11);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    CHECK(rows[i].at("processes") == std::size_t{1} << i);
    CHECK(rows[i].at("step_micro_batches") == rows[i].at("processes"));
    CHECK(rows[i].at("efficiency") <= 1.0);
  }
  CHECK(networks[3].at("steps")[10].at("efficiency") > rows[10].at("efficiency"));
  CHECK(rows[0].at("efficiency") == 1.0);
  CHECK(rows[10].at("efficiency") < rows[1].at("efficiency"));
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

TEST_CASE("a plan in the directory of a run says that train refuses it") {
  const TrainedWorkplace work;
  const auto before = work.contents();
  const Outcome done = work.run({"plan", "tiny.yaml", "--seconds", "0.02"});
  CHECK(done.code == 0);
  CHECK(contains(
      done.out, "\nlimits:\n  train refuses the run directory: runs/tiny: already contains a run"));
  CHECK(work.contents() == before);
  CHECK(!contains(work.run({"plan", "tiny.yaml", "--seconds", "0.02", "train.run_dir=new"}).out,
                  "refuses"));
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
