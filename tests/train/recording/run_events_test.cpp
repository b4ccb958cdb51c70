// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <array>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <regex>
#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"
#include "tests/train/program.h"
#include "tests/train/run_files.h"
#include "tests/train/tiny_run.h"
#include "train/recording/run_events.h"
#include "train/recording/tensorboard.h"

namespace tapestry {
namespace {

/// Two parameters and a buffer.
struct Tensors {
  Parameters parameters{DType::float32, 1};

  Tensors() {
    parameters.create("a.weight", {3, 2}, normal_initializer(1.0));
    parameters.create("a.bias", {2}, zeros_initializer());
    parameters.create_buffer("norm.running_mean", {4}, zeros_initializer());
  }

  /// Flips one bit in the second parameter: the sign of a 0.
  void flip_bit() {
    Tensor bias = parameters.list()[1].tensor;
    bias.mutable_values<float>()[1] *= -1.0F;
  }
};

std::vector<std::uint32_t> digests_of(const Tensors& tensors) {
  return compute_digests(tensors.parameters);
}

TEST_CASE("a change of one bit changes only the digest of its tensor") {
  Tensors tensors;
  const auto before = digests_of(tensors);
  REQUIRE(before.size() == 3);
  CHECK(digests_of(Tensors()) == before);
  tensors.flip_bit();
  const auto after = digests_of(tensors);
  CHECK(after[0] == before[0]);
  CHECK(after[1] != before[1]);
  CHECK(after[2] == before[2]);
}

// Expected values: XXH3 of 8 and 16 zero bytes, computed by the Python package xxhash.
TEST_CASE("a digest is the low half of XXH3") {
  const auto digests = digests_of(Tensors());
  CHECK(digests[1] == 0x6f87acd9);
  CHECK(digests[2] == 0xc7528968);
}

TEST_CASE("recorded digests are read back unchanged") {
  const test::TemporaryFolder folder;
  Tensors tensors;
  EventLog log(folder / events_file_name, 0, 0);
  add_digests(log, 1, tensors.parameters, true);
  tensors.flip_bit();
  add_digests(log, 3, tensors.parameters, false);
  add_digests(log, 4, tensors.parameters, true);
  const DigestTable table = read_digests(read_events_file(folder.path()));
  CHECK(table.names == std::vector<std::string>{"a.weight", "a.bias", "norm.running_mean"});
  CHECK(table.steps == std::vector<std::uint64_t>{1, 3, 4});
  const auto last = digests_of(tensors);
  CHECK(std::vector(table.row(1).begin(), table.row(1).end()) == last);
  CHECK(table.row(0)[0] == last[0]);
  CHECK(table.row(0)[1] != last[1]);
  CHECK(table.find(3) == 1);
  CHECK_FALSE(table.find(2).has_value());
  CHECK_FALSE(table.find(5).has_value());
}

std::string event(int step, const std::string& digests, const std::string& names = "") {
  return "{\"step\":" + std::to_string(step) + ",\"event\":\"digests\"," +
         (names.empty() ? "" : "\"tensors\":" + names + ",") + "\"digests\":" + digests + "}\n";
}

TEST_CASE("reading digests stops at the first invalid event") {
  const std::string good = event(1, R"(["00000001","0000000f"])", R"(["a","b"])");
  CHECK(read_digests(good).digests == std::vector<std::uint32_t>{1, 15});
  for (const std::string& bad :
       {event(2, R"(["00000001"])"), event(2, R"(["00000001","0000000g"])"),
        event(2, R"(["00000001","2"])"), event(1, R"(["00000001","00000002"])"),
        event(2, R"([1,2])"), event(2, R"(["00000001","00000002"])", R"(["a","c"])"),
        event(2, "1")}) {
    CAPTURE(bad);
    const DigestTable table = read_digests(good + bad + event(7, R"(["00000001","00000002"])"));
    CHECK(table.steps == std::vector<std::uint64_t>{1});
    CHECK(table.digests == std::vector<std::uint32_t>{1, 15});
  }
  CHECK(read_digests(event(1, R"(["00000001"])")).steps.empty());  // no names of the tensors
}

DigestTable table_of(const std::vector<std::array<std::uint32_t, 3>>& rows) {
  DigestTable table{.names = {"a", "b"}};
  for (const auto& [step, a, b] : rows) {
    table.steps.push_back(step);
    table.digests.insert(table.digests.end(), {a, b});
  }
  return table;
}

TEST_CASE("comparing digests finds the first step that differs between two runs, and its tensors") {
  const DigestTable a = table_of({{1, 1, 1}, {2, 2, 2}, {3, 3, 3}, {4, 4, 4}});
  const auto equal = compare_digests(a, a);
  REQUIRE(equal.has_value());
  CHECK(equal->equal_step == 4);
  CHECK(equal->step == 0);
  const auto one = compare_digests(a, table_of({{1, 1, 1}, {2, 2, 2}, {3, 3, 9}, {4, 9, 9}}));
  REQUIRE(one.has_value());
  CHECK(one->equal_step == 2);
  CHECK(one->step == 3);
  CHECK(one->tensors == std::vector<std::string>{"b"});
  const auto later = compare_digests(a, table_of({{2, 2, 2}, {4, 9, 9}}));
  REQUIRE(later.has_value());
  CHECK(later->equal_step == 2);
  CHECK(later->step == 4);
  CHECK(later->tensors == std::vector<std::string>{"a", "b"});
  CHECK(compare_digests(a, table_of({{1, 9, 1}}))->equal_step == 0);
  CHECK_FALSE(compare_digests(a, table_of({{5, 1, 1}})).has_value());
  DigestTable other = a;
  other.names = {"a", "c"};
  CHECK_FALSE(compare_digests(a, other).has_value());
  CHECK_FALSE(compare_digests({}, {}).has_value());
}

DigestTable digests_of_run(const std::filesystem::path& run) {
  return read_digests(read_events_file(run));
}

TEST_CASE("train.digest_every is the number of steps between digests, and 0 records none") {
  const test::Workplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  REQUIRE(work.run({"train", "tiny.yaml", "train.run_dir=some", "train.digest_every=5"}).code == 0);
  CHECK(digests_of_run(work / "some").steps == std::vector<std::uint64_t>{5, 10});
  REQUIRE(work.run({"train", "tiny.yaml", "train.run_dir=none", "train.digest_every=0"}).code == 0);
  CHECK(digests_of_run(work / "none").steps.empty());
}

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

TEST_CASE("written records are read back unchanged") {
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

TEST_CASE("only the last record of a step is used, and ignored lines are counted") {
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

// ---- Events of a run.

/// The validations without the values of resident_bytes, which differ between processes.
std::string without_memory(const std::filesystem::path& run) {
  return std::regex_replace(test::event_lines(run, "validation"),
                            std::regex("\"resident_bytes\":[0-9]*,"), "");
}

std::vector<ValidationRecord> records_of(const std::filesystem::path& run) {
  return read_validations(read_events_file(run)).records;
}

TEST_CASE("recording does not change the results of a run") {
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
    REQUIRE(records.size() == 3);  // steps 4, 8 and 12
    CHECK(records[2].step == 12);
    CHECK(records[0].resident_bytes > 1'000'000);
    CHECK(records[0].samples.size() == config.train.samples);
    REQUIRE(records[2].training.has_value());
    CHECK(records[2].training->examples == 22);
    CHECK(records[2].training->tokens == count_tokens(corpus.train, pair_rows));
    CHECK(records[2].training->epochs == 4);           // 24 batches, 6 per epoch
    CHECK(records[2].training->sample.examples == 6);  // the size of the validation set
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

/// Recorded values that do not depend on the processes of a run.
struct Recorded {
  DigestTable digests;
  std::string validations;
  std::vector<std::uintmax_t> event_file_sizes{};

  bool operator==(const Recorded& other) const {
    return digests.steps == other.digests.steps && digests.digests == other.digests.digests &&
           validations == other.validations && event_file_sizes == other.event_file_sizes;
  }
};

Recorded recorded(const std::filesystem::path& run) {
  Recorded all{
      .digests = digests_of_run(run), .validations = without_memory(run), .event_file_sizes = {}};
  for (const char* split : {"train", "validation"}) {
    all.event_file_sizes.push_back(
        std::filesystem::file_size(run / tensorboard_folder_name / split / event_file_name));
  }
  return all;
}

TEST_CASE("a resumed or killed run records the same values as an uninterrupted run") {
  const test::Workplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  const auto train = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "train");
    REQUIRE(work.run(arguments).code == 0);
  };
  train({"tiny.yaml", "train.run_dir=whole", "train.tensorboard=true"});
  const Recorded whole = recorded(work / "whole");
  CHECK(whole.digests.steps == std::vector<std::uint64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  CHECK(records_of(work / "whole").size() == 2);
  // The run ends at step 7 and validates there. The longer run does not validate at step 7.
  train({"tiny.yaml", "train.run_dir=parts", "train.tensorboard=true", "train.steps=7"});
  REQUIRE(records_of(work / "parts").size() == 2);
  CHECK(records_of(work / "parts")[1].step == 7);
  train({"--resume", "parts", "train.steps=12", "train.threads=3"});
  CHECK(recorded(work / "parts") == whole);
  // The process was killed after recording steps that it had not saved.
  std::filesystem::remove(work / "parts/checkpoints/step-00000012.h5");
  train({"--resume", "parts"});
  CHECK(recorded(work / "parts") == whole);
  // A finished run keeps its last record.
  train({"--resume", "whole"});
  CHECK(recorded(work / "whole") == whole);
}

}  // namespace
}  // namespace tapestry
