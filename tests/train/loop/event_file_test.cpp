#include "train/loop/event_file.h"

#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/contains.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/program.h"

namespace tapestry {
namespace {

using test::contains;
using test::read_text;
using test::TemporaryFolder;

/// The events of a file whose records are complete; their checksums are not verified.
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
  // The length 24, and the masked CRC-32C of its 8 bytes, bit by bit as RFC 3720, 12.1 defines it.
  CHECK(text.substr(0, 12) == std::string("\x18\0\0\0\0\0\0\0\xA3\x7F\x4B\x22", 12));
}

// The bytes are those of SerializeToString() in the Python package tensorboard.
TEST_CASE("values are encoded as the protocol buffers of TensorBoard") {
  EventSummary summary;
  summary.add_scalar("a", 1.5);
  CHECK(summary.bytes() == std::string("\x0A\x08\x0A\x01"
                                       "a"
                                       "\x15\x00\x00\xC0\x3F",
                                       10));

  EventSummary table;
  table.add_table("t", {.columns = 2, .cells = {"x", "", "yz", "w"}});
  CHECK(table.bytes() == std::string("\x0A\x27\x0A\x01"
                                     "t"
                                     "\x42\x18\x08\x07\x12\x08\x12\x02\x08\x02\x12\x02\x08\x02"
                                     "\x42\x01x\x42\x00\x42\x02yz\x42\x01w"
                                     "\x4A\x08\x0A\x06\x0A\x04text",
                                     41));
}

TEST_CASE("a histogram has the upper limits of its intervals") {
  WeightStatistics statistics{
      .values = 4, .not_finite = 1, .norm = 2, .mean = 0.5, .low = 0, .high = 1};
  statistics.histogram = {.low = 0, .high = 1, .counts = {1, 2}};
  EventSummary summary;
  summary.add_histogram("h", statistics);
  const std::string& bytes = summary.bytes();
  REQUIRE(bytes.size() == 2 + 3 + 2 + 5 * 9 + 2 * (2 + 16));
  std::vector<double> numbers;
  const auto read = [&](std::size_t at) {
    double value = 0;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    numbers.push_back(value);
  };
  for (std::size_t i = 0; i < 5; ++i) read(7 + 9 * i + 1);
  for (const std::size_t at : {54U, 62U, 72U, 80U}) read(at);
  // Smallest, greatest, number, sum, sum of squares; limits; counts.
  CHECK(numbers == std::vector<double>{0, 1, 3, 1.5, 4, 0.5, 1, 1, 2});

  EventSummary none;
  none.add_histogram("h", {.values = 2, .not_finite = 2});
  CHECK(none.bytes().empty());
}

TEST_CASE("an event file is continued without later steps and invalid records") {
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
  SUBCASE("any changed byte of the last record") {
    const std::size_t record = (whole.size() - 40) / 3;
    for (std::size_t i = whole.size() - record; i < whole.size(); ++i) {
      std::string damaged = whole;
      damaged[i] = static_cast<char>(damaged[i] ^ 16);
      folder.write("events", damaged);
      CHECK(EventFile(path, 1000).last_step() == 200);
    }
  }
  SUBCASE("another file") {
    folder.write("events", "loss,1.0\n");
    const EventFile file(path, 1000);
    CHECK(events_in(path).size() == 1);
  }
}

TEST_CASE("an event file that cannot be written has a problem and no effect") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "events");
  EventFile file(folder / "events", 0);
  file.add(5, scalar(1.0));
  REQUIRE(file.problem().has_value());
  CHECK(contains(*file.problem(), "events: could not be written: "));
}

}  // namespace
}  // namespace tapestry
