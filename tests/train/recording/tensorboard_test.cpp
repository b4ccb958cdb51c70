// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/contains.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/kinds.h"
#include "tests/train/program.h"
#include "tests/train/run_files.h"
#include "tests/train/tiny_run.h"
#include "train/recording/tensorboard.h"

namespace tapestry {
namespace {

using test::contains;
using test::read_text;
using test::TemporaryFolder;

/// The events of a file with complete records. Does not verify checksums.
std::vector<std::string> events_in(const std::filesystem::path& path) {
  const std::string text = read_text(path);
  std::vector<std::string> events;
  for (std::size_t at = 0; at < text.size();) {
    std::uint64_t size = 0;
    REQUIRE(text.size() - at >= 16);
    std::memcpy(&size, text.data() + at, sizeof size);
    REQUIRE(size <= text.size() - at - 16);
    events.push_back(text.substr(at + 12, size));
    at += size + 16;
  }
  return events;
}

EventSummary scalar(double value) {
  EventSummary summary;
  summary.add_scalar("loss", value);
  return summary;
}

TEST_CASE("an event file starts with its version, and each record has masked CRC-32C checksums") {
  const TemporaryFolder folder;
  const EventFile file(folder / "events", 0);
  const std::string text = read_text(folder / "events");
  REQUIRE(text.size() == 12 + 24 + 4);
  CHECK(text.substr(12 + 9, 15) ==
        "\x1A\x0D"
        "brain.Event:2");
  // The length 24, and the masked CRC-32C of its 8 bytes, computed bit by bit according to RFC
  // 3720, 12.1.
  CHECK(text.substr(0, 12) == std::string("\x18\0\0\0\0\0\0\0\xA3\x7F\x4B\x22", 12));
}

// Expected bytes: SerializeToString() of the Python package tensorboard.
TEST_CASE("values are encoded as TensorBoard protocol buffers") {
  EventSummary summary;
  summary.add_scalar("a", 1.5);
  CHECK(summary.bytes() == std::string("\x0A\x08\x0A\x01"
                                       "a"
                                       "\x15\x00\x00\xC0\x3F",
                                       10));

  EventSummary table;
  table.add_table("t", {{"x", ""}, {"yz", "w"}});
  CHECK(table.bytes() == std::string("\x0A\x27\x0A\x01"
                                     "t"
                                     "\x42\x18\x08\x07\x12\x08\x12\x02\x08\x02\x12\x02\x08\x02"
                                     "\x42\x01x\x42\x00\x42\x02yz\x42\x01w"
                                     "\x4A\x08\x0A\x06\x0A\x04text",
                                     41));
}

TEST_CASE("a histogram is a HistogramProto with the upper limits of its intervals") {
  WeightStatistics statistics{
      .values = 4, .not_finite = 1, .norm = 2, .mean = 0.5, .low = 0, .high = 1};
  statistics.histogram = {.low = 0, .high = 1, .counts = {1, 2}};
  EventSummary summary;
  summary.add_histogram("h", statistics);
  const auto doubles = [](const std::vector<double>& values) {
    return std::string(reinterpret_cast<const char*>(values.data()), 8 * values.size());
  };
  // The fields min, max, num, sum, sum_squares, bucket_limit and bucket.
  std::string proto;
  for (const double value : {0.0, 1.0, 3.0, 1.5, 4.0}) {
    proto += "\x09\x11\x19\x21\x29"[proto.size() / 9] + doubles({value});
  }
  proto += "\x32\x10" + doubles({0.5, 1}) + "\x3A\x10" + doubles({1, 2});
  CHECK(summary.bytes() == "\x0A\x56\x0A\x01h\x2A\x51" + proto);

  EventSummary none;
  none.add_histogram("h", {.values = 2, .not_finite = 2});
  CHECK(none.bytes().empty());
}

TEST_CASE("opening an event file removes later steps and invalid records") {
  const TemporaryFolder folder;
  const auto path = folder / "events";
  {
    EventFile file(path, 0);
    for (const std::uint64_t step : {5, 200, 300}) file.add(step, scalar(1.0));
    CHECK(file.last_step() == 300);
  }
  const std::string whole = read_text(path);
  CHECK(events_in(path).size() == 4);
  SUBCASE("later steps") {
    EventFile file(path, 299);
    CHECK(file.last_step() == 200);
    CHECK(events_in(path).size() == 3);
    file.add(300, scalar(1.0));
    CHECK(read_text(path).size() == whole.size());
    file.drop_after(5);
    CHECK(file.last_step() == 5);
  }
  SUBCASE("a truncated record") {
    for (const std::size_t missing : {1U, 4U, 5U, 20U}) {
      folder.write("events", whole.substr(0, whole.size() - missing));
      const EventFile file(path, 1000);
      CHECK(file.last_step() == 200);
      CHECK(events_in(path).size() == 3);
    }
  }
  SUBCASE("a changed byte in the last record") {
    const std::size_t record = (whole.size() - 40) / 3;
    for (std::size_t i = whole.size() - record; i < whole.size(); ++i) {
      std::string damaged = whole;
      damaged[i] = static_cast<char>(damaged[i] ^ 16);
      folder.write("events", damaged);
      CHECK(EventFile(path, 1000).last_step() == 200);
    }
  }
  SUBCASE("a file that is not an event file") {
    folder.write("events", "loss,1.0\n");
    const EventFile file(path, 1000);
    CHECK(events_in(path).size() == 1);
  }
}

TEST_CASE("an event file that cannot be written reports a problem") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "events");
  EventFile file(folder / "events", 0);
  file.add(5, scalar(1.0));
  REQUIRE(file.problem().has_value());
  CHECK(contains(*file.problem(), "events: could not be written: "));
}

constexpr const char* name = event_file_name;

/// The number of occurrences of a text in a file.
std::size_t count(const std::filesystem::path& path, const std::string& text) {
  const std::string all = read_text(path);
  std::size_t found = 0;
  for (std::size_t at = 0; (at = all.find(text, at)) != all.npos; at += text.size()) ++found;
  return found;
}

std::string heading() { return std::string(metrics_heading) + ",bleu\n"; }

TrainMetrics row_of(std::uint64_t step) {
  return {.step = step,
          .epoch = 1,
          .loss = 2,
          .perplexity = 7,
          .learning_rate = 0.5,
          .gradient_norm = 1,
          .target_tokens = 10};
}

Scores scores_of(double bleu) {
  return {.sentences = 1,
          .tokens = 4,
          .loss = 1,
          .perplexity = 2.7,
          .token_accuracy = 0.5,
          .others = {{"bleu", bleu}}};
}

TEST_CASE("event files have each row of the metrics once") {
  const TemporaryFolder folder;
  MetricsTable table(std::vector<std::string>{"bleu"});
  TensorBoardLog log(folder.path(), table.csv());
  for (const std::uint64_t step : {10, 20, 30}) {
    table.add(row_of(step));
    log.add_rows(table.csv());
    table.add_validation(step, 1, scores_of(12));
    log.add_rows(table.csv());
    log.add_rows(table.csv());
  }
  CHECK_FALSE(log.problem().has_value());
  CHECK(count(folder / "train" / name, "learning_rate") == 3);
  CHECK(count(folder / "train" / name, "bleu") == 0);
  CHECK(count(folder / "validation" / name, "bleu") == 3);
  CHECK(count(folder / "validation" / name, "token_accuracy") == 3);
  CHECK(count(folder / "validation" / name, "learning_rate") == 0);
  const std::string whole = read_text(folder / "train" / name);

  SUBCASE("opening the files with a shorter table removes the last rows") {
    MetricsTable shorter(std::vector<std::string>{"bleu"});
    shorter.add(row_of(10));
    shorter.add_validation(10, 1, scores_of(12));
    shorter.add(row_of(20));
    TensorBoardLog again(folder.path(), shorter.csv());
    CHECK(count(folder / "train" / name, "learning_rate") == 2);
    CHECK(count(folder / "validation" / name, "bleu") == 1);
    shorter.add_validation(20, 1, scores_of(13));
    again.add_rows(shorter.csv());
    CHECK(count(folder / "validation" / name, "bleu") == 2);
  }
  SUBCASE("lost rows are added again") {
    folder.write(std::string("train/") + name, whole.substr(0, whole.size() - 10));
    std::filesystem::remove(folder / "validation" / name);
    const TensorBoardLog again(folder.path(), table.csv());
    CHECK(read_text(folder / "train" / name).size() == whole.size());
    CHECK(count(folder / "validation" / name, "bleu") == 3);
  }
  SUBCASE("a run that is rolled back removes the rows of later steps") {
    log.set_rows(heading());
    CHECK(count(folder / "train" / name, "learning_rate") == 0);
    MetricsTable other(std::vector<std::string>{"bleu"});
    other.add(row_of(15));
    log.add_rows(other.csv());
    CHECK(count(folder / "train" / name, "learning_rate") == 1);
  }
}

/// Reads the fields of a protocol buffer message, in any order.
struct MessageReader {
  std::string_view bytes;

  std::uint64_t integer() {
    std::uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      value |= static_cast<std::uint64_t>(byte & 127U) << shift;
      if (byte < 128) return value;
    }
  }
  std::string_view take(std::size_t size) {
    REQUIRE(size <= bytes.size());
    const std::string_view part = bytes.substr(0, size);
    bytes.remove_prefix(size);
    return part;
  }
  /// Calls field(number, content, integer) for each field.
  void each(const std::function<void(std::uint64_t, std::string_view, std::uint64_t)>& field) {
    while (!bytes.empty()) {
      const std::uint64_t key = integer(), type = key & 7U;
      if (type == 0) {
        field(key >> 3U, {}, integer());
      } else {
        field(key >> 3U, take(type == 1 ? 8 : type == 5 ? 4 : integer()), 0);
      }
    }
  }
};

/// The scalars of an event file by tag.
std::map<std::string, test::Points> scalars_in(const std::filesystem::path& path) {
  std::map<std::string, test::Points> scalars;
  for (const std::string& event : events_in(path)) {
    std::uint64_t step = 0;
    std::string_view summary;
    MessageReader{event}.each([&](std::uint64_t field, std::string_view content, auto number) {
      if (field == 2) step = number;
      if (field == 5) summary = content;
    });
    MessageReader{summary}.each([&](std::uint64_t, std::string_view value, std::uint64_t) {
      std::string tag;
      std::optional<float> scalar;
      MessageReader{value}.each([&](std::uint64_t field, std::string_view content, auto) {
        if (field == 1) tag = content;
        if (field == 2) std::memcpy(&scalar.emplace(), content.data(), sizeof(float));
      });
      if (scalar) CHECK(scalars[tag].emplace(step, *scalar).second);
    });
  }
  return scalars;
}

TEST_CASE("each scalar has the name and the value of its column of metrics.csv") {
  const test::KindWorkplace work;
  work.write("pairs.yaml", test::tiny_yaml);
  for (const std::string config : {"pairs", "tags", "language", "images"}) {
    CAPTURE(config);
    REQUIRE(work.run({"train", config + ".yaml", "train.tensorboard=true"}).code == 0);
    const std::filesystem::path run = work / "runs" / config;
    auto expected = test::metrics_of(run);
    CHECK(expected.size() == 2);
    for (auto& [split, columns] : expected) {
      for (auto& [column, points] : columns) {
        for (auto& point : points) point.second = static_cast<float>(point.second);
      }
      auto found = scalars_in(run / "tensorboard" / split / name);
      std::erase_if(found, [&](const auto& scalar) {
        return scalar.first == "resident_bytes" || scalar.first.starts_with("update_ratio/");
      });
      CHECK(found == columns);
    }
  }
}

TEST_CASE("a validation record is written as tables and histograms") {
  const TemporaryFolder folder;
  MetricsTable table;
  TensorBoardLog log(folder.path(), table.csv());
  table.add_validation(10, 1, scores_of(12));
  log.add_rows(table.csv());
  WeightStatistics weights{.values = 3, .norm = 1.5, .mean = 0.25, .low = -1, .high = 2};
  weights.histogram = {.low = -1, .high = 2, .counts = {1, 2}};
  ValidationRecord record{
      .step = 10,
      .resident_bytes = 5,
      .samples = {{.input = "a_b <i>", .output = "caf\xE9", .expected = ""}},
      .blocks = {
          {.path = "head", .weights = weights, .gradients = weights, .update_ratio = 0.001}}};
  log.add(record);
  record.step = 11;  // a step without a row
  log.add(record);
  const auto path = folder / "validation" / name;
  for (const char* tag : {"resident_bytes", "samples", "weights/head", "gradients/head",
                          "update_ratio/head", "a\\_b &lt;i\\>", "caf\\\\xE9"}) {
    CAPTURE(tag);
    CHECK(count(path, tag) == 1);
  }
}

TEST_CASE("a run warns about a folder that cannot be created") {
  const test::Workplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  REQUIRE(work.run({"train", "tiny.yaml", "train.steps=4"}).code == 0);
  work.write("runs/tiny/tensorboard", "a file");
  const test::Outcome done =
      work.run({"train", "--resume", "runs/tiny", "train.steps=8", "train.tensorboard=true"});
  CHECK(done.code == 0);
  CHECK(count(work / "runs/tiny/train.log", "warning: ") == 1);
  CHECK(contains(read_text(work / "runs/tiny/train.log"), "tensorboard"));
}

}  // namespace
}  // namespace tapestry
