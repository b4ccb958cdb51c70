#include "train/recording/run_recording.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <string>

#include "tests/support/contains.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/program.h"
#include "tests/train/tiny_run.h"

namespace tapestry {
namespace {

using test::contains;
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
  RunRecording recording(folder / "recording.jsonl", 0);
  recording.add(record_of(5));
  recording.add(record_of(10));
  CHECK_FALSE(recording.problem().has_value());
  const auto records = parse_recording(read_text(folder / "recording.jsonl")).records;
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

TEST_CASE("a recording is continued without later steps and incomplete lines") {
  const test::TemporaryFolder folder;
  const auto path = folder / "recording.jsonl";
  {
    RunRecording recording(path, 0);
    for (const std::uint64_t step : {5, 10, 15}) recording.add(record_of(step));
  }
  const std::string whole = read_text(path);
  folder.write("recording.jsonl", whole + "{\"step\":20,\"resident");
  { const RunRecording again(path, 100); }
  CHECK(read_text(path) == whole);
  RunRecording recording(path, 10);
  CHECK(parse_recording(read_text(path)).records.size() == 2);
  recording.add(record_of(15));
  CHECK(read_text(path) == whole);
  recording.drop_after(4);
  CHECK(read_text(path).empty());
}

TEST_CASE("reading a recording ends at the first line that is not a record") {
  const test::TemporaryFolder folder;
  RunRecording recording(folder / "recording.jsonl", 0);
  recording.add(record_of(5));
  const std::string line = read_text(folder / "recording.jsonl");
  for (const std::string& odd :
       {std::string("x\n"), std::string("{\"step\":7,}\n"),
        std::string("{\"step\":7,\"samples\":1}\n"), line,
        std::string("{\"step\":7,\"resident_bytes\":\"x\",\"samples\":[],\"blocks\":[]}\n"),
        "{\"step\":7,\"a\":" + std::string(100'000, '[') + "}\n"}) {
    CHECK(parse_recording(line + odd + line).records.size() == 1);
  }
  CHECK(parse_recording("").records.empty());
  CHECK(parse_recording(line.substr(0, line.size() - 1)).records.empty());
}

TEST_CASE("of records of the same step the last one counts, and ignored lines are counted") {
  const auto line = [](int step, int bytes) {
    return fmt::format(R"({{"step":{},"resident_bytes":{},"samples":[],"blocks":[]}})", step,
                       bytes) +
           "\n";
  };
  const auto all = parse_recording(line(5, 1) + line(5, 2) + line(6, 3));
  REQUIRE(all.records.size() == 2);
  CHECK(all.records[0].resident_bytes == 2);
  CHECK(all.records[1].step == 6);
  CHECK_FALSE(all.records[1].training.has_value());  // as earlier versions wrote it
  CHECK(all.ignored_lines == 0);
  const auto some = parse_recording(line(5, 1) + line(4, 2) + line(6, 3) + "incomplete");
  CHECK(some.records.size() == 1);
  CHECK(some.ignored_lines == 2);
}

TEST_CASE("a recording that cannot be written has a problem and no effect") {
  const test::TemporaryFolder folder;
  std::filesystem::create_directory(folder / "recording.jsonl");
  RunRecording recording(folder / "recording.jsonl", 0);
  recording.add(record_of(5));
  REQUIRE(recording.problem().has_value());
  CHECK(contains(*recording.problem(), "recording.jsonl: could not be written: "));
}

// ---- The recording of a run.

/// The file without the values of resident_bytes, which differ between processes.
std::string without_memory(const std::filesystem::path& path) {
  std::string text = read_text(path);
  const std::string name = "\"resident_bytes\":";
  for (std::size_t at = 0; (at = text.find(name, at)) != text.npos;) {
    at += name.size();
    text.erase(at, text.find(',', at) - at);
  }
  return text;
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
    const auto records = parse_recording(read_text(folder / "recording.jsonl")).records;
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

TEST_CASE("attention that cannot be computed is a warning and changes no bit of a run") {
  Config config = test::tiny_config();
  config.train.tensorboard = true;
  Corpus corpus = load_corpus(config.data);
  for (Example& example : corpus.test) example.source.assign(2, 1000);  // no id of the vocabulary
  std::string with, without;
  for (std::string* checkpoint : {&with, &without}) {
    const test::TemporaryFolder folder;
    RunDirectory directory(folder.path());
    directory.create();
    Progress progress(nullptr, 0, config.train.steps);
    progress.log_to((folder / "train.log").string());
    Trainer trainer(config, corpus, directory, progress);
    if (checkpoint == &with) trainer.record_to(folder.path());
    trainer.run();
    *checkpoint = read_text(directory.checkpoint_path(config.train.steps));
    if (checkpoint == &without) continue;
    const std::string log = read_text(folder / "train.log"), text = "attention is not recorded: ";
    CHECK(log.find(text) != log.npos);
    CHECK(log.find(text) == log.rfind(text));
    CHECK(parse_recording(read_text(folder / "recording.jsonl")).records.size() == 3);
  }
  CHECK(with == without);
}

TEST_CASE("the recording of a resumed run is that of an uninterrupted run") {
  const test::Workplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  REQUIRE(work.run({"train", "tiny.yaml", "train.run_dir=whole"}).code == 0);
  // Step 7 is validated since the run ends there, which the longer run does not repeat.
  REQUIRE(work.run({"train", "tiny.yaml", "train.run_dir=parts", "train.steps=7"}).code == 0);
  const auto first = parse_recording(read_text(work / "parts/recording.jsonl")).records;
  REQUIRE(first.size() == 2);
  CHECK(first[1].step == 7);
  REQUIRE(work.run({"train", "--resume", "parts", "train.steps=12"}).code == 0);
  const std::string whole = without_memory(work / "whole/recording.jsonl");
  CHECK(parse_recording(read_text(work / "whole/recording.jsonl")).records.size() == 2);
  CHECK(without_memory(work / "parts/recording.jsonl") == whole);
  // A process that was killed after it had recorded a step that it had not saved.
  REQUIRE(work.run({"train", "tiny.yaml", "train.run_dir=killed"}).code == 0);
  std::filesystem::remove(work / "killed/checkpoints/step-00000012.h5");
  REQUIRE(work.run({"train", "--resume", "killed"}).code == 0);
  CHECK(without_memory(work / "killed/recording.jsonl") == whole);
  // A finished run keeps its last record.
  REQUIRE(work.run({"train", "--resume", "whole"}).code == 0);
  CHECK(without_memory(work / "whole/recording.jsonl") == whole);
}

TEST_CASE("a recording that cannot be written is a warning of the run") {
  const test::TrainedWorkplace work;
  std::filesystem::remove(work / "runs/tiny/recording.jsonl");
  std::filesystem::create_directory(work / "runs/tiny/recording.jsonl");
  const test::Outcome done = work.run({"train", "--resume", "runs/tiny", "train.steps=14"});
  CHECK(done.code == 0);
  CHECK(contains(done.out, "\nwarning: runs/tiny/recording.jsonl: could not be written: "));
}

}  // namespace
}  // namespace tapestry
