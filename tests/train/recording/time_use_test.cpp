// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include "autograd/kernels/parallel.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/run_files.h"
#include "train/recording/time_use.h"

namespace tapestry {
namespace {

using std::chrono::milliseconds;

TEST_CASE("padding is counted in sources and targets, but not in single labels") {
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

TEST_CASE("a timer adds its lifetime only to its part") {
  TimeUse use;
  use.add(TimePart::saving, milliseconds(1500));
  { const PartTimer timer(use, TimePart::forward, "forward"); }
  CHECK(use.seconds(TimePart::saving) == 1.5);
  CHECK(use.seconds(TimePart::forward) > 0.0);
  CHECK(use.seconds(TimePart::backward) == 0.0);
}

TEST_CASE("recorded times are read back unchanged") {
  const test::TemporaryFolder folder;
  EventLog log(folder / events_file_name, 0, 0);
  TimeRecorder recorder;
  TimeUse use;
  use.add(TimePart::batches, milliseconds(250));
  use.add(TimePart::recording, milliseconds(125));
  recorder.add_if_due(log, 5, use);  // no time has passed
  CHECK(read_events_file(folder.path()).empty());
  recorder.add(log, 5, use);
  recorder.add(log, 10, use);
  const auto processes = read_process_times(read_events_file(folder.path()));
  REQUIRE(processes.size() == 1);
  CHECK(processes[0].step == 10);
  CHECK(processes[0].started.size() == std::string("2026-01-01T00:00:00.000000Z").size());
  CHECK(processes[0].seconds < 60.0);
  CHECK(processes[0].threads == kernels::num_threads());
  CHECK(processes[0].cores >= 1);
  CHECK(processes[0].part(TimePart::batches) == 0.25);
  CHECK(processes[0].part(TimePart::recording) == 0.125);
  CHECK(processes[0].part(TimePart::forward) == 0.0);
}

std::string time_event(int step, const std::string& started, const std::string& seconds) {
  return "{\"step\":" + std::to_string(step) + ",\"event\":\"time\",\"started\":\"" + started +
         "\",\"seconds\":" + seconds +
         R"(,"processor_seconds":1,"other_seconds":null,"threads":3,"cores":4,"positions":50,)"
         R"("padding":6,"parts":{"batches":0.1,"forward":0.2,"backward":0.3,"anomaly_checks":0.4,)"
         R"("exchange":0.5,"optimizer":0.6,"validation":0.7,"saving":0.8,"reports":0.9,)"
         R"("recording":1}})"
         "\n";
}

TEST_CASE("only the last event of each process is used") {
  const auto processes = read_process_times(time_event(5, "a", "1") + time_event(10, "a", "2") +
                                            time_event(25, "b", "4"));
  REQUIRE(processes.size() == 2);
  CHECK(processes[0].seconds == 2);
  CHECK(processes[1].step == 25);
  CHECK(processes[1].processor_seconds == 1.0);
  CHECK_FALSE(processes[1].other_seconds.has_value());
  CHECK(processes[1].threads == 3);
  CHECK(processes[1].cores == 4);
  CHECK(processes[1].positions == 50);
  CHECK(processes[1].padding == 6);
  CHECK(processes[1].part(TimePart::forward) == 0.2);
  for (const char* seconds : {"\"x\"", "nan", ""}) {
    CHECK(read_process_times(time_event(5, "a", "1") + time_event(6, "b", seconds)).size() == 1);
  }
}

TEST_CASE("each process of a run records the time of its parts") {
  const test::Workplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  REQUIRE(work.run({"train", "tiny.yaml", "--until", "7", "train.detect_anomaly=true"}).code == 0);
  REQUIRE(work.run({"train", "--resume", "runs/tiny"}).code == 0);
  const auto processes = read_process_times(read_events_file(work / "runs/tiny"));
  REQUIRE(processes.size() == 2);
  CHECK(processes[0].step == 7);
  CHECK(processes[1].step == 12);
  for (const ProcessTime& process : processes) {
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
  // A process without training steps adds no event.
  const std::string before = test::event_lines(work / "runs/tiny", "time");
  CHECK(work.run({"train", "--resume", "runs/tiny"}).code == 0);
  CHECK(test::event_lines(work / "runs/tiny", "time") == before);
}

}  // namespace
}  // namespace tapestry
