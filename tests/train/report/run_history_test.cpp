// SPDX-License-Identifier: BSD-3-Clause
#include "train/report/run_history.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/contains.h"
#include "tests/support/temporary_folder.h"
#include "train/base/error.h"
#include "train/checkpoint/metrics.h"
#include "train/recording/event_log.h"

namespace tapestry {
namespace {

using test::contains;

const NamedCurve* find(const std::vector<NamedCurve>& curves, const std::string& name,
                       bool validation) {
  const auto found = std::ranges::find_if(curves, [&](const NamedCurve& curve) {
    return curve.name == name && curve.validation == validation;
  });
  return found == curves.end() ? nullptr : &*found;
}

TEST_CASE("curves of metrics.csv keep nan and inf, and leave out columns without values") {
  MetricsTable table(std::vector<std::string>{"bleu"});
  table.add({.step = 5, .loss = 2.5, .gradient_norm = INFINITY});
  table.add({.step = 10, .loss = std::nan("")});
  table.add_validation(10, 2, {.loss = 1.25, .others = {{"bleu", 31.5}}});
  const auto curves = metric_curves(table.csv(), "metrics");
  REQUIRE(find(curves, "loss", false) != nullptr);
  const Curve& loss = find(curves, "loss", false)->curve;
  CHECK(loss.steps == std::vector<std::uint64_t>{5, 10});
  CHECK(loss.values[0] == 2.5);
  CHECK(std::isnan(loss.values[1]));
  CHECK(std::isinf(find(curves, "gradient_norm", false)->curve.values[0]));
  CHECK(find(curves, "bleu", true)->curve.values == std::vector<double>{31.5});
  // Columns without values, and columns that identify a row.
  for (const char* name : {"exact_match", "epoch", "step", "split", "target_tokens"}) {
    CHECK(find(curves, name, true) == nullptr);
    CHECK(find(curves, name, false) == nullptr);
  }
  CHECK(find(curves, "learning_rate", true) == nullptr);
  CHECK_THROWS_AS(metric_curves("step\n", "metrics"), CheckpointError);
}

TEST_CASE("curves and process times are read from the events of a run") {
  const test::TemporaryFolder folder;
  EventLog log(folder / events_file_name, 0, 0);
  TimeRecorder recorder;
  add_speed(log, 5, {.seconds_per_step = 0.5, .targets_per_second = 1000});
  recorder.add(log, 5, TimeUse());
  add_speed(log, 10, {.seconds_per_step = 0.25, .targets_per_second = 2000});
  recorder.add(log, 10, TimeUse());
  log.add(10, "validation", to_json({.step = 10, .resident_bytes = 7}));
  log.add(15, "validation",
          to_json({.step = 15, .training = TrainingRecord{.sample = {50, 0.75}}}));
  const RunHistory history = read_run_history(folder.path());
  CHECK(history.notes.empty());
  const auto check = [&](const char* name, const Curve& expected) {
    CAPTURE(name);
    REQUIRE(find(history.curves, name, false) != nullptr);
    CHECK(find(history.curves, name, false)->curve.steps == expected.steps);
    CHECK(find(history.curves, name, false)->curve.values == expected.values);
  };
  check("target_tokens_per_second", {{5, 10}, {1000, 2000}});
  check("step_seconds", {{5, 10}, {0.5, 0.25}});
  check("memory_bytes", {{10}, {7}});
  check("token_accuracy", {{15}, {0.75}});
  REQUIRE(history.processes.size() == 1);
  CHECK(history.processes[0].step == 10);
  CHECK(history.records.size() == 2);
}

TEST_CASE("a report shows evenly spaced validations, including the last") {
  const test::TemporaryFolder folder;
  for (const std::size_t count : {max_records, max_records + 1, 5 * max_records}) {
    CAPTURE(count);
    EventLog log(folder / events_file_name, 0, 0);
    for (std::size_t step = 1; step <= count; ++step) {
      log.add(step, "validation", to_json({.step = step}));
    }
    const auto records = read_run_history(folder.path()).records;
    REQUIRE(records.size() == max_records);
    CHECK(records.back().step == count);
    std::uint64_t previous = 0, min_distance = count, max_distance = 0;
    for (const ValidationRecord& record : records) {
      min_distance = std::min(min_distance, record.step - previous);
      max_distance = std::max(max_distance, record.step - previous);
      previous = record.step;
    }
    CHECK(max_distance - min_distance <= 1);
  }
}

TEST_CASE("the training loss of a report excludes label smoothing") {
  std::vector<NamedCurve> curves = {
      {.name = "loss", .curve = {{5, 10}, {2.0, 1.5}}},
      {.name = "perplexity", .curve = {{5, 10}, {std::exp(1.0), 1.0}}},
      {.name = "loss", .validation = true, .curve = {{10}, {3.0}}}};
  separate_label_smoothing(curves);
  REQUIRE(curves.size() == 4);
  REQUIRE(find(curves, "loss", false) != nullptr);
  CHECK(find(curves, "loss", false)->curve.steps == std::vector<std::uint64_t>{5, 10});
  CHECK(find(curves, "loss", false)->curve.values == std::vector<double>{1.0, 0.0});
  REQUIRE(find(curves, "training_objective", false) != nullptr);
  CHECK(find(curves, "training_objective", false)->curve.values == std::vector<double>{2.0, 1.5});
  CHECK(find(curves, "loss", true)->curve.values == std::vector<double>{3.0});
  CHECK(find(curves, "perplexity", false) != nullptr);
  curves.clear();
  separate_label_smoothing(curves);
  CHECK(curves.empty());
}

TEST_CASE("invalid files and files of earlier versions cause notes") {
  const test::TemporaryFolder folder;
  CHECK(read_run_history(folder.path()).notes.empty());  // no files
  folder.write("metrics.csv", "");
  std::filesystem::create_directory(folder / "train.log");
  folder.write("events.jsonl", "a\nb\n");
  folder.write("timing.csv", "a,b\n1,2\n");
  folder.write("recording.jsonl", "");
  const RunHistory history = read_run_history(folder.path());
  REQUIRE(history.notes.size() == 4);
  CHECK(contains(history.notes[0], "metrics.csv: line 1: found the end of the table"));
  CHECK(contains(history.notes[1], "events.jsonl: the last 2 lines are ignored"));
  CHECK(contains(history.notes[2], "train.log"));
  CHECK(contains(history.notes[3],
                 "files of an earlier version are ignored: timing.csv, recording.jsonl"));
}

TEST_CASE("a report shows the log without lines about progress, validations and samples") {
  const test::TemporaryFolder folder;
  const std::string time = "2026-11-23 19:54:24  ";
  folder.write("train.log", time + "data: 22 training pairs\n" + time +
                                "step  4/12  epoch 1  loss 1.0  lr 1.00e-03\n" + time +
                                "validation at step 6: loss 1\n" + time +
                                "  source     a b\n  reference  a b\n" + "  output     a\n" + time +
                                "warning: slow\n" + time + "step 9: the loss is nan\n" + time +
                                "\x1B[31m\n" + "no time\n" + time + "incomplete");
  const RunHistory history = read_run_history(folder.path());
  REQUIRE(history.log.size() == 4);
  CHECK(history.log[0].time == "2026-11-23 19:54:24");
  CHECK(history.log[0].text == "data: 22 training pairs");
  CHECK_FALSE(history.log[0].warning);
  CHECK(history.log[1].text == "warning: slow");
  CHECK(history.log[1].warning);
  CHECK(history.log[2].text == "step 9: the loss is nan");
  CHECK(history.log[3].text == "\\x1B[31m");
  CHECK(history.log_lines_left_out == 0);
  std::string text;  // only the last lines of a long log are shown
  for (int i = 0; i < 1000; ++i) text += time + "line " + std::to_string(i) + "\n";
  folder.write("train.log", text);
  const RunHistory end = read_run_history(folder.path());
  CHECK(end.log.size() == 300);
  CHECK(end.log_lines_left_out == 700);
  CHECK(end.log[0].text == "line 700");
}

}  // namespace
}  // namespace tapestry
