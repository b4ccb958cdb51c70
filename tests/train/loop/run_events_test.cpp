#include "train/loop/validation_record.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"
#include "tests/train/event_lines.h"
#include "tests/train/tiny_run.h"

namespace tapestry {
namespace {

using test::read_text;

ValidationRecord record_of(std::uint64_t step) {
  WeightStatistics weights{.values = 3, .norm = 1.5, .mean = 0.25, .low = -1, .high = 2};
  weights.histogram = {.low = -1, .high = 2, .counts = {1, 2}};
  WeightStatistics gradients = weights;
  gradients.norm = INFINITY;
  return {.step = step,
          .resident_bytes = 12345,
          .samples = {{.input = "a \"b\"", .output = "caf\xE9", .expected = "c\nd"}},
          .blocks = {{.path = "encoder",
                      .weights = weights,
                      .gradients = gradients,
                      .update_ratio = 0.001},
                     {.path = "head", .weights = weights}},
          .training = TrainingRecord{.examples = 1000,
                                     .tokens = 12345,
                                     .epochs = 3,
                                     .sample = {.examples = 256, .accuracy = 0.75}}};
}

TEST_CASE("records are read as they were written") {
  const test::TemporaryFolder folder;
  EventLog log(folder / events_file_name, 0, 0);
  for (const std::uint64_t step : {5, 10}) log.add(step, "validation", to_json(record_of(step)));
  const auto records = read_validations(read_events_file(folder.path())).records;
  REQUIRE(records.size() == 2);
  CHECK(records[1].step == 10);
  CHECK(records[0].resident_bytes == 12345);
  REQUIRE(records[0].samples.size() == 1);
  CHECK(records[0].samples[0].input == "a \"b\"");
  CHECK(records[0].samples[0].output == "caf\\xE9");
  CHECK(records[0].samples[0].expected == "c\nd");
  REQUIRE(records[0].blocks.size() == 2);
  const BlockRecord& block = records[0].blocks[0];
  CHECK(block.path == "encoder");
  CHECK(block.weights.norm == 1.5);
  CHECK(block.weights.histogram.counts == std::vector<std::uint64_t>{1, 2});
  CHECK(block.weights.histogram.low == -1);
  CHECK(std::isnan(block.gradients->norm));
  CHECK(block.update_ratio == 0.001);
  CHECK_FALSE(records[0].blocks[1].gradients.has_value());
  CHECK_FALSE(records[0].blocks[1].update_ratio.has_value());
  CHECK(records[0].training == record_of(5).training);
}

TEST_CASE("of records of the same step the last one counts, and ignored lines are counted") {
  const auto line = [](int step, const std::string& bytes) {
    return fmt::format(
               R"({{"step":{},"event":"validation","resident_bytes":{},"samples":[],"blocks":[]}})",
               step, bytes) +
           "\n";
  };
  const auto all = read_validations(line(5, "1") + line(5, "2") + line(6, "3"));
  REQUIRE(all.records.size() == 2);
  CHECK(all.records[0].resident_bytes == 2);
  CHECK(all.records[1].step == 6);
  CHECK_FALSE(all.records[1].training.has_value());
  CHECK(all.ignored_lines == 0);
  const auto some = read_validations(line(5, "1") + line(6, "\"x\"") + line(6, "3"));
  CHECK(some.records.size() == 1);
  CHECK(some.ignored_lines == 2);
}

// ---- The recording of a run.

/// The validations without the values of resident_bytes, which differ between processes.
std::string without_memory(const std::filesystem::path& run) {
  return std::regex_replace(test::event_lines(run, "validation"),
                            std::regex("\"resident_bytes\":[0-9]*,"), "");
}

std::vector<ValidationRecord> records_of(const std::filesystem::path& run) {
  return read_validations(read_events_file(run)).records;
}

TEST_CASE("recording changes no bit of a run") {
  const Config config = test::tiny_config();
  const Corpus corpus = load_corpus(config.data);
  std::string with, without;
  for (std::string* checkpoint : {&with, &without}) {
    const test::TemporaryFolder folder;
    RunDirectory directory(folder.path());
    directory.create();
    Progress progress(nullptr, 0, config.train.steps);
    Trainer trainer(config, corpus, directory, progress);
    if (checkpoint == &with) trainer.record_to(folder.path());
    trainer.run();
    *checkpoint = read_text(directory.checkpoint_path(config.train.steps)) +
                  read_text(folder / "metrics.csv");
    const auto records = records_of(folder.path());
    if (checkpoint == &without) continue;
    REQUIRE(records.size() == 3);  // of the steps 4, 8 and 12
    CHECK(records[2].step == 12);
    CHECK(records[0].resident_bytes > 1'000'000);
    CHECK(records[0].samples.size() == config.train.samples);
    REQUIRE(records[2].training.has_value());
    CHECK(records[2].training->examples == 22);
    CHECK(records[2].training->tokens == count_tokens(corpus.train, pair_rows));
    CHECK(records[2].training->epochs == 4);           // 24 batches, 6 an epoch
    CHECK(records[2].training->sample.examples == 6);  // as many as the validation set has
    CHECK(records[2].training->sample.accuracy > 0.0);
    CHECK(records[2].training->sample.accuracy <= 1.0);
    REQUIRE(records[0].blocks.size() > 3);
    for (const BlockRecord& block : records[0].blocks) {
      REQUIRE(block.update_ratio.has_value());
      CHECK(*block.update_ratio > 1e-6);
      CHECK(*block.update_ratio < 1.0);
      CHECK(block.gradients->norm > 0.0);
    }
  }
  CHECK(with == without);
}

TEST_CASE("the recording of a resumed run is that of an uninterrupted run") {
  const test::Workplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  REQUIRE(work.run({"train", "tiny.yaml", "train.run_dir=whole"}).code == 0);
  // Step 7 is validated since the run ends there, which the longer run does not repeat.
  REQUIRE(work.run({"train", "tiny.yaml", "train.run_dir=parts", "train.steps=7"}).code == 0);
  const auto first = records_of(work / "parts");
  REQUIRE(first.size() == 2);
  CHECK(first[1].step == 7);
  REQUIRE(work.run({"train", "--resume", "parts", "train.steps=12"}).code == 0);
  const std::string whole = without_memory(work / "whole");
  CHECK(records_of(work / "whole").size() == 2);
  CHECK(without_memory(work / "parts") == whole);
  // A process that was killed after it had recorded a step that it had not saved.
  REQUIRE(work.run({"train", "tiny.yaml", "train.run_dir=killed"}).code == 0);
  std::filesystem::remove(work / "killed/checkpoints/step-00000012.h5");
  REQUIRE(work.run({"train", "--resume", "killed"}).code == 0);
  CHECK(without_memory(work / "killed") == whole);
  // A finished run keeps its last record.
  REQUIRE(work.run({"train", "--resume", "whole"}).code == 0);
  CHECK(without_memory(work / "whole") == whole);
}

}  // namespace
}  // namespace tapestry
