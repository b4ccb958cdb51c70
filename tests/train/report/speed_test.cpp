#include "train/report/speed.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/support/contains.h"
#include "train/tasks/task.h"

namespace tapestry {
namespace {

using test::contains;

/// A process of 100 seconds with two threads on two cores, both of which it used.
ProcessTimeUse busy_process() {
  ProcessTimeUse use{.step = 10,
                     .started = "2026-01-01T00:00:00Z",
                     .seconds = 100,
                     .processor_seconds = 190,
                     .other_seconds = 4,
                     .threads = 2,
                     .cores = 2,
                     .positions = 1000,
                     .padding = 100};
  use.parts[static_cast<std::size_t>(TimePart::forward)] = 30;
  use.parts[static_cast<std::size_t>(TimePart::backward)] = 60;
  return use;
}

std::vector<std::string> find(const ProcessTimeUse& use, const Config& config = {}) {
  RunHistory history;
  history.time_use = {use};
  return speed_findings(history, config);
}

std::vector<std::string> with_part(TimePart part, double seconds, const TrainOptions& train = {}) {
  ProcessTimeUse use = busy_process();
  use.parts[static_cast<std::size_t>(part)] = seconds;
  Config config;
  config.train = train;
  return find(use, config);
}

TEST_CASE("a run that computes all the time has no findings of speed") {
  CHECK(find(busy_process()).empty());
}

TEST_CASE("each part that took much of the time is named with the keys to change") {
  const auto check = [](TimePart part, double little, double much, const char* text,
                        const char* key) {
    CAPTURE(text);
    TrainOptions train;
    train.report_every = 1;
    CHECK(with_part(part, little, train).empty());
    const auto found = with_part(part, much, train);
    REQUIRE(found.size() == 1);
    CHECK(contains(found[0], text));
    CHECK(contains(found[0], key));
  };
  check(TimePart::batches, 9, 31, "Waiting for batches took 31 % of the time: ", "train.threads");
  check(TimePart::validation, 9, 40, "Validation took 40 % of the time: ",
        "train.validate_every (500), or lower train.exact_match_sequences (1000)");
  check(TimePart::saving, 9, 20,
        "Saving checkpoints took 20 % of the time: ", "train.save_every (500)");
  check(TimePart::reports, 9, 20,
        "Writing reports took 20 % of the time: ", "train.report_every (1)");
  check(TimePart::recording, 4, 6, "Recording took 6 % of the time: ",
        "train.log_every (50); raise train.digest_every (50) or set it to 0.");
  check(TimePart::anomaly_checks, 0, 2,
        "The checks of train.detect_anomaly took 2 % of the time: ", "set it to false");
}

TEST_CASE("keys that are off are not named against a part of the time") {
  TrainOptions train;
  train.exact_match_sequences = 0;
  train.digest_every = 0;
  train.report_every = 0;
  train.tensorboard = true;
  CHECK(with_part(TimePart::validation, 40, train)
            .at(0)
            .ends_with("time: raise train.validate_every (500)."));
  CHECK(with_part(TimePart::recording, 40, train)
            .at(0)
            .ends_with("(500) and train.log_every (50); set train.tensorboard to false."));
  CHECK(with_part(TimePart::reports, 40, train).empty());
}

TEST_CASE("the number of decoded sequences is named for tasks that decode only") {
  ProcessTimeUse use = busy_process();
  use.parts[static_cast<std::size_t>(TimePart::validation)] = 40;
  RunHistory without_time_use;
  without_time_use.processes.resize(1);
  without_time_use.processes[0].seconds = 60;
  without_time_use.processes[0].step_seconds = 10;
  for (const Task* task : all_tasks()) {
    Config config;
    config.model_kind = task->kind().name;
    const bool decodes = config.model_kind == "seq2seq";
    CAPTURE(config.model_kind);
    const auto found = find(use, config);
    REQUIRE(found.size() == 1);
    CHECK(
        found[0].starts_with("Validation took 40 % of the time: raise train.validate_every (500)"));
    CHECK(contains(found[0], "train.exact_match_sequences") == decodes);
    const auto outside = speed_findings(without_time_use, config);
    REQUIRE(outside.size() == 1);
    CHECK(contains(outside[0], "train.save_every"));
    CHECK(contains(outside[0], "train.exact_match_sequences") == decodes);
  }
}

TEST_CASE("the greatest part of the time comes first, over all processes") {
  ProcessTimeUse first = busy_process(), second = busy_process();
  first.parts[static_cast<std::size_t>(TimePart::validation)] = 60;
  second.parts[static_cast<std::size_t>(TimePart::batches)] = 80;
  RunHistory history;
  history.time_use = {first, second};
  const auto found = speed_findings(history, {});
  REQUIRE(found.size() == 2);
  CHECK(contains(found[0], "Waiting for batches took 40 % of the time"));
  CHECK(contains(found[1], "Validation took 30 % of the time"));
}

TEST_CASE("free cores are reported if the run had too few threads for them") {
  ProcessTimeUse use = busy_process();
  use.threads = 1;
  use.processor_seconds = 99;
  const auto found = find(use);
  REQUIRE(found.size() == 1);
  CHECK(contains(found[0], "train.threads is 1 of 2 cores, and other programs used 0.0: "));
  use.other_seconds = 90;
  CHECK(find(use).empty());
  use.other_seconds = 190;
  CHECK(find(use).at(0) ==
        "Other programs kept 1.9 of 2 cores busy, so that the run, with 1 thread, got 1.0: stop "
        "these programs or train later.");
  use.threads = 4;
  use.other_seconds = 0;
  REQUIRE(find(use).size() == 1);
  CHECK(find(use)[0] == "The run had 4 threads on 2 cores: set train.threads to 2.");
}

TEST_CASE("other programs are distinguished from threads that wait") {
  ProcessTimeUse use = busy_process();
  use.processor_seconds = 110;
  use.other_seconds = 90;
  auto found = find(use);
  REQUIRE(found.size() == 1);
  CHECK(contains(
      found[0],
      "Other programs kept 0.9 of 2 cores busy, so that the run, with 2 threads, got 1.1 (alone "
      "it may be up to 1.8 times as fast): stop"));
  CHECK(contains(found[0], "set train.threads to 1."));
  ProcessTimeUse idle = use;  // on cores that were free for most of the time
  idle.processor_seconds = 40;
  CHECK_FALSE(contains(find(idle).at(0), "times as fast"));
  use.parts[static_cast<std::size_t>(TimePart::batches)] = 30;
  CHECK(find(use).size() == 1);  // batches wait for these programs as well
  use.parts[static_cast<std::size_t>(TimePart::batches)] = 0;
  use.other_seconds = 4;
  found = find(use);
  REQUIRE(found.size() == 1);
  CHECK(contains(found[0], "The 2 threads waited for 45 % of the time"));
  use.other_seconds.reset();
  CHECK(find(use).empty());
}

TEST_CASE("much padding is named with the key that reduces it") {
  ProcessTimeUse use = busy_process();
  use.padding = 450;
  CHECK(contains(find(use).at(0),
                 "Padding is 45 % of the tokens of batches: set train.batch_tokens"));
  Config config;
  config.train.batch_tokens = 100;
  CHECK(contains(find(use, config).at(0), "a smaller train.batch_tokens"));
  use.padding = 290;
  CHECK(find(use).empty());
  use.positions = 0;
  CHECK(find(use).empty());
}

TEST_CASE("a run of less than a second has no findings of speed") {
  ProcessTimeUse use = busy_process();
  use.seconds = 0.9;
  use.padding = 900;
  CHECK(find(use).empty());
}

TEST_CASE("without time_use.csv other programs and train.detect_anomaly are named from the log") {
  RunHistory history;
  history.log = {
      {"10:00", "warning: threads: 2, but other programs keep 1.0 of 2 cores busy", true},
      {"11:00", "warning: threads: 2, but other programs keep 1.9 of 2 cores busy", true},
      {"12:00", "warning: something else", true},
      {"13:00", "other programs are named without a warning", false}};
  Config config;
  config.train.detect_anomaly = true;
  const auto found = speed_findings(history, config);
  REQUIRE(found.size() == 2);
  CHECK(found[0] ==
        "Training was slowed down at 11:00: threads: 2, but other programs keep 1.9 of 2 cores "
        "busy");
  CHECK(contains(found[1], "train.detect_anomaly was on"));
  history.time_use = {busy_process()};
  CHECK(speed_findings(history, config).empty());
}

TEST_CASE("without time_use.csv more than a quarter of the time outside of steps is named") {
  RunHistory history;
  history.processes.resize(2);
  history.processes[0].seconds = 60;
  history.processes[0].step_seconds = 50;
  history.processes[1].seconds = 40;
  history.processes[1].step_seconds = 20;
  const auto found = speed_findings(history, {});
  REQUIRE(found.size() == 1);
  CHECK(contains(found[0], "30 % of the time was spent on validations, saves and reports"));
  history.processes[1].step_seconds = 30;
  CHECK(speed_findings(history, {}).empty());
  history.processes.resize(1);
  history.processes[0].seconds = 0.5;
  history.processes[0].step_seconds = 0.1;
  CHECK(speed_findings(history, {}).empty());
}

TEST_CASE("the data of the section are sums over processes, and cores are those of the last") {
  CHECK(speed_json({}).is_null());
  ProcessTimeUse second = busy_process();
  second.threads = 1;
  const auto json = speed_json({busy_process(), second});
  CHECK(json["seconds"] == 200);
  CHECK(json["processor_seconds"] == 380);
  CHECK(json["other_seconds"] == 8);
  CHECK(json["threads"] == 1);
  CHECK(json["positions"] == 2000);
  CHECK(json["padding"] == 200);
  CHECK(json["processes"] == 2);
  CHECK(json["parts"].size() == time_part_names.size());
  CHECK(json["parts"][1]["name"] == "forward");
  CHECK(json["parts"][1]["seconds"] == 60);
  second.other_seconds.reset();
  CHECK(speed_json({busy_process(), second})["other_seconds"].is_null());
}

}  // namespace
}  // namespace tapestry
