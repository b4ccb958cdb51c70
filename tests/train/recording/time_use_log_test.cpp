#include "train/recording/time_use_log.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include "autograd/kernels/parallel.h"
#include "tests/support/contains.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/program.h"

namespace tapestry {
namespace {

using std::chrono::milliseconds;
using test::contains;
using test::read_text;

const std::string heading =
    "step,started,seconds,processor_seconds,other_seconds,threads,cores,positions,padding,batches,"
    "forward,backward,anomaly_checks,exchange,optimizer,validation,saving,reports,recording\n";

std::string row(int step, const std::string& started, const std::string& seconds) {
  return std::to_string(step) + "," + started + "," + seconds +
         ",1,2,3,4,50,6,.1,.2,.3,.4,.5,.6,"
         ".7,.8,.9,1\n";
}

TEST_CASE("padding is counted on each side that has tokens, but not in single labels") {
  const Batch pairs =
      make_batch({{.source = {5, 6, 7}, .target = {5}}, {.source = {5}, .target = {}}},
                 std::array<std::size_t, 2>{0, 1});
  TimeUse use;
  use.add(pairs);  // sources of 4 and 2 tokens, targets of 2 and 1
  CHECK(use.positions() == 8 + 4);
  CHECK(use.padding() == 2 + 1);
  const Batch labels = make_batch({{.source = {5, 6, 7}, .target = {4}}},
                                  std::array<std::size_t, 1>{0}, {.layout = class_rows});
  use.add(labels);
  CHECK(use.positions() == 12 + 4);
  CHECK(use.padding() == 3);
}

TEST_CASE("a timer adds its lifetime to its part alone") {
  TimeUse use;
  use.add(TimePart::saving, milliseconds(1500));
  {
    const PartTimer timer(use, TimePart::forward, "forward");
  }
  CHECK(use.seconds(TimePart::saving) == 1.5);
  CHECK(use.seconds(TimePart::forward) > 0.0);
  CHECK(use.seconds(TimePart::backward) == 0.0);
}

TEST_CASE("rows of time_use.csv are read as they were written") {
  const test::TemporaryFolder folder;
  const auto path = folder / "time_use.csv";
  TimeUseLog log(path, 0);
  CHECK(read_text(path) == heading);
  TimeUse use;
  use.add(TimePart::batches, milliseconds(250));
  use.add(TimePart::recording, milliseconds(125));
  log.add_if_due(5, use);  // no time has passed
  CHECK(read_text(path) == heading);
  log.add(5, use);
  log.add(10, use);
  CHECK_FALSE(log.problem().has_value());
  const auto processes = parse_time_use(read_text(path));
  REQUIRE(processes.size() == 1);
  CHECK(processes[0].step == 10);
  CHECK(processes[0].seconds < 60.0);
  CHECK(processes[0].threads == kernels::num_threads());
  CHECK(processes[0].cores >= 1);
  CHECK(processes[0].part(TimePart::batches) == 0.25);
  CHECK(processes[0].part(TimePart::recording) == 0.125);
  CHECK(processes[0].part(TimePart::forward) == 0.0);
}

TEST_CASE("the last row of each process counts, also of two that began in the same second") {
  const std::string text = heading + row(5, "a", "1") + row(10, "a", "2") + row(15, "a", "1.5") +
                           row(20, "b", "3") + row(25, "b", "4");
  const auto processes = parse_time_use(text);
  REQUIRE(processes.size() == 3);
  CHECK(processes[0].seconds == 2);
  CHECK(processes[1].seconds == 1.5);
  CHECK(processes[2].seconds == 4);
  CHECK(processes[2].step == 25);
  CHECK(processes[2].processor_seconds == 1.0);
  CHECK(processes[2].other_seconds == 2.0);
  CHECK(processes[2].threads == 3);
  CHECK(processes[2].cores == 4);
  CHECK(processes[2].positions == 50);
  CHECK(processes[2].padding == 6);
  CHECK(processes[2].part(TimePart::forward) == 0.2);
}

TEST_CASE("reading time_use.csv ends at the first invalid line") {
  const std::string good = heading + row(5, "a", "1");
  for (const std::string& bad : {row(10, "b", "-1"), row(10, "b", "nan"), row(10, "b", "inf"),
                                 row(10, "b", "x"), row(10, "b", ""), std::string("10,b,1\n"),
                                 std::string("x\n"), std::string("\n"), std::string("10,b,1,2")}) {
    CAPTURE(bad);
    CHECK(parse_time_use(good + bad + row(20, "c", "1")).size() == 1);
  }
  CHECK(parse_time_use("").empty());
  CHECK(parse_time_use("step,started\n" + row(5, "a", "1")).empty());
  // A system that does not tell processor times.
  std::string unknown = row(10, "b", "1");
  unknown.replace(unknown.find(",1,2,3"), 6, ",,,3");
  const auto processes = parse_time_use(good + unknown);
  REQUIRE(processes.size() == 2);
  CHECK_FALSE(processes[1].processor_seconds.has_value());
  CHECK_FALSE(processes[1].other_seconds.has_value());
  CHECK(processes[1].threads == 3);
}

TEST_CASE("processes that begin to train within a second are distinguished") {
  const test::TemporaryFolder folder;
  const auto path = folder / "time_use.csv";
  TimeUseLog(path, 0).add(5, TimeUse());
  TimeUseLog next(path, 5);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));  // as long as the first one, or longer
  next.add(10, TimeUse());
  CHECK(parse_time_use(read_text(path)).size() == 2);
}

TEST_CASE("a run records the time of its parts, and each process that resumes it does") {
  const test::Workplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  REQUIRE(work.run({"train", "tiny.yaml", "--until", "7", "train.detect_anomaly=true"}).code == 0);
  REQUIRE(work.run({"train", "--resume", "runs/tiny"}).code == 0);
  const auto processes = parse_time_use(read_text(work / "runs/tiny/time_use.csv"));
  REQUIRE(processes.size() == 2);
  CHECK(processes[0].step == 7);
  CHECK(processes[1].step == 12);
  for (const ProcessTimeUse& process : processes) {
    for (const TimePart part :
         {TimePart::batches, TimePart::forward, TimePart::backward, TimePart::optimizer,
          TimePart::validation, TimePart::saving, TimePart::recording}) {
      CAPTURE(static_cast<int>(part));
      CHECK(process.part(part) > 0.0);
    }
    double sum = 0.0;
    for (const double part : process.parts) sum += part;
    CHECK(sum <= process.seconds);
    CHECK(process.part(TimePart::exchange) == 0.0);
    CHECK(process.part(TimePart::reports) == 0.0);
    CHECK(process.positions > 0);
  }
  CHECK(processes[0].part(TimePart::anomaly_checks) > 0.0);
  CHECK(processes[1].part(TimePart::anomaly_checks) == 0.0);
  // A process that trains nothing adds nothing.
  const std::string before = read_text(work / "runs/tiny/time_use.csv");
  CHECK(work.run({"train", "--resume", "runs/tiny"}).code == 0);
  CHECK(read_text(work / "runs/tiny/time_use.csv") == before);
}

TEST_CASE("a time_use.csv that cannot be written is a warning of the run") {
  const test::Workplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  REQUIRE(work.run({"train", "tiny.yaml", "--until", "7"}).code == 0);
  std::filesystem::remove(work / "runs/tiny/time_use.csv");
  std::filesystem::create_directory(work / "runs/tiny/time_use.csv");
  const auto done = work.run({"train", "--resume", "runs/tiny"});
  CHECK(done.code == 0);
  CHECK(contains(done.out, "\nwarning: runs/tiny/time_use.csv: could not be written: "));
}

}  // namespace
}  // namespace tapestry
