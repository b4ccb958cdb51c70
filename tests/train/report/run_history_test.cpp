#include "train/report/run_history.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "tests/support/contains.h"
#include "tests/support/temporary_folder.h"
#include "train/error.h"
#include "train/metrics.h"
#include "train/output/timing_log.h"

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

std::string small_metrics() {
  MetricsTable table(std::vector<std::string>{"bleu"});
  table.add({.step = 5,
             .epoch = 1,
             .loss = 2.5,
             .perplexity = 12.25,
             .learning_rate = 0.001,
             .gradient_norm = 3.5,
             .target_tokens = 100});
  table.add({.step = 10,
             .epoch = 2,
             .loss = std::nan(""),
             .perplexity = 1.5,
             .learning_rate = 0.002,
             .gradient_norm = INFINITY,
             .target_tokens = 100});
  table.add_validation(10, 2,
                       {.tokens = 7,
                        .loss = 1.25,
                        .perplexity = 3.5,
                        .token_accuracy = 0.5,
                        .others = {{"bleu", 31.5}}});
  return table.csv();
}

TEST_CASE("the curves of metrics.csv have the values of its columns") {
  const auto curves = metric_curves(small_metrics(), "metrics");
  REQUIRE(find(curves, "loss", false) != nullptr);
  const Curve& loss = find(curves, "loss", false)->curve;
  CHECK(loss.steps == std::vector<std::uint64_t>{5, 10});
  CHECK(loss.values[0] == 2.5);
  CHECK(std::isnan(loss.values[1]));
  CHECK(std::isinf(find(curves, "gradient_norm", false)->curve.values[1]));
  CHECK(find(curves, "learning_rate", false)->curve.values == std::vector<double>{0.001, 0.002});
  CHECK(find(curves, "loss", true)->curve.values == std::vector<double>{1.25});
  CHECK(find(curves, "token_accuracy", true)->curve.values == std::vector<double>{0.5});
  CHECK(find(curves, "bleu", true)->curve.values == std::vector<double>{31.5});
  // Columns without values, and those that describe a row.
  for (const char* name : {"exact_match", "epoch", "step", "split", "target_tokens"}) {
    CHECK(find(curves, name, true) == nullptr);
    CHECK(find(curves, name, false) == nullptr);
  }
  CHECK(find(curves, "learning_rate", true) == nullptr);
  CHECK_THROWS_AS(metric_curves("step\n", "metrics"), CheckpointError);
}

TEST_CASE("a run directory without files has an empty history") {
  const test::TemporaryFolder folder;
  const RunHistory history = read_run_history(folder.path());
  CHECK(history.curves.empty());
  CHECK(history.processes.empty());
  CHECK(history.changes.empty());
  CHECK(history.log.empty());
  CHECK(history.notes.empty());
}

TEST_CASE("the rows of timing.csv are curves and processes") {
  const test::TemporaryFolder folder;
  const std::string heading = std::string(timing_heading) + "\n";
  folder.write("timing.csv", heading +
                                 "5,2026-01-01T00:00:01Z,10,0.5,1000\n"
                                 "10,2026-01-01T00:00:02Z,20,0.25,2000\n"
                                 "15,2026-01-02T00:00:01Z,6,0.5,1500\n"
                                 "20,2026-01-02");  // as a crash leaves it
  const RunHistory history = read_run_history(folder.path());
  CHECK(history.notes.empty());
  REQUIRE(find(history.curves, "target_tokens_per_second", false) != nullptr);
  const Curve& speed = find(history.curves, "target_tokens_per_second", false)->curve;
  CHECK(speed.steps == std::vector<std::uint64_t>{5, 10, 15});
  CHECK(speed.values == std::vector<double>{1000, 2000, 1500});
  CHECK(find(history.curves, "elapsed_seconds", false) == nullptr);
  REQUIRE(history.processes.size() == 2);
  CHECK(history.processes[0].first_step == 5);
  CHECK(history.processes[0].last_step == 10);
  CHECK(history.processes[0].seconds == 20);
  CHECK(history.processes[1].first_step == 15);
  CHECK(history.processes[1].ended == "2026-01-02T00:00:01Z");
  CHECK(history.processes[1].seconds == 6);
}

TEST_CASE("with label smoothing the training loss is that without it, from the perplexity") {
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

TEST_CASE("a process that was killed is found by the later start of the next one") {
  const test::TemporaryFolder folder;
  folder.write("timing.csv", std::string(timing_heading) +
                                 "\n"
                                 "5,2026-02-28T23:59:58Z,10.2,0.5,1000\n"
                                 "10,2026-03-01T00:00:08Z,20.9,0.25,2000\n"  // a second off
                                 "15,2026-03-01T01:00:00Z,30,0.5,1500\n"     // more has elapsed
                                 "20,2026-03-01T01:00:11Z,40,0.5,1500\n"
                                 "25,no time,50,0.5,1500\n");
  const RunHistory history = read_run_history(folder.path());
  REQUIRE(history.processes.size() == 2);
  CHECK(history.processes[0].last_step == 10);
  CHECK(history.processes[1].first_step == 15);
  CHECK(history.processes[1].last_step == 25);
  CHECK(history.processes[1].seconds == 50);
}

TEST_CASE("files with other content cause notes, and the others are read") {
  const test::TemporaryFolder folder;
  folder.write("metrics.csv", "");
  folder.write("timing.csv", "a,b\n1,2\n");
  std::filesystem::create_directory(folder / "train.log");
  folder.write("recording.jsonl", "a\nb\n");
  folder.write("history.txt", "step 7: changed model.dropout: 0 -> 0.1\nodd\n");
  const RunHistory history = read_run_history(folder.path());
  REQUIRE(history.notes.size() == 4);
  CHECK(contains(history.notes[0], "metrics.csv: line 1: found the end of the table"));
  CHECK(contains(history.notes[1], "timing.csv: found another heading"));
  CHECK(contains(history.notes[2], "recording.jsonl: the last 2 lines are ignored"));
  CHECK(contains(history.notes[3], "train.log"));
  REQUIRE(history.changes.size() == 2);
  CHECK(history.changes[0].step == 7);
  CHECK(history.changes[0].text == "changed model.dropout: 0 -> 0.1");
  CHECK(history.changes[1].step == 0);
  CHECK(history.changes[1].text == "odd");
}

TEST_CASE("memory and training accuracy are curves, of the records that have them") {
  const test::TemporaryFolder folder;
  folder.write("recording.jsonl",
               "{\"step\":5,\"resident_bytes\":7,\"samples\":[],\"blocks\":[]}\n"
               "{\"step\":10,\"resident_bytes\":0,\"samples\":[],\"blocks\":[],\"training\":"
               "{\"examples\":100,\"tokens\":900,\"epochs\":2,\"sample\":50,"
               "\"accuracy\":0.75}}\n");
  const RunHistory history = read_run_history(folder.path());
  REQUIRE(history.curves.size() == 2);
  REQUIRE(find(history.curves, "memory_bytes", false) != nullptr);
  CHECK(find(history.curves, "memory_bytes", false)->curve.steps == std::vector<std::uint64_t>{5});
  REQUIRE(find(history.curves, "token_accuracy", false) != nullptr);
  const Curve& accuracy = find(history.curves, "token_accuracy", false)->curve;
  CHECK(accuracy.steps == std::vector<std::uint64_t>{10});
  CHECK(accuracy.values == std::vector<double>{0.75});
}

TEST_CASE("the log is shown without progress, validations and samples") {
  const test::TemporaryFolder folder;
  const std::string time = "2026-11-23 19:54:24  ";
  folder.write("train.log", time + "data: 22 training pairs\n" + time +
                                "step  4/12  epoch 1  loss 1.0  perplexity 2\n" + time +
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
}

TEST_CASE("lines in the middle of a long log are left out and counted") {
  const test::TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "2026-11-23 19:54:24  line " + std::to_string(i) + "\n";
  folder.write("train.log", text);
  const RunHistory history = read_run_history(folder.path());
  CHECK(history.log.size() == 300);
  CHECK(history.log_lines_left_out == 700);
  CHECK(history.log[99].text == "line 99");
  CHECK(history.log[100].text == "line 800");
  CHECK(history.log.back().text == "line 999");
}

}  // namespace
}  // namespace tapestry
