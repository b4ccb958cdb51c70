// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/contains.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/run_files.h"
#include "train/recording/event_log.h"

namespace tapestry {
namespace {

using Json = nlohmann::ordered_json;
using test::contains;
using test::read_text;
using test::TemporaryFolder;

std::string line(int step, const std::string& event) {
  return "{\"step\":" + std::to_string(step) + ",\"event\":\"" + event + "\",\"x\":1}\n";
}

/// The steps of all events named `a`, and the number of ignored lines.
std::pair<std::vector<std::uint64_t>, std::size_t> read(const std::string& text) {
  std::vector<std::uint64_t> steps;
  const std::size_t ignored = read_events(text, "a", [&](std::uint64_t step, const Json& json) {
    CHECK(json.at("x").get<int>() == 1);
    steps.push_back(step);
  });
  return {steps, ignored};
}

using Steps = std::vector<std::uint64_t>;

TEST_CASE("an event is a line with its step and name, written immediately") {
  const TemporaryFolder folder;
  EventLog log(folder / "events.jsonl", 0, 0);
  log.add(5, "a", {{"x", 1}});
  CHECK(read_text(folder / "events.jsonl") == line(5, "a"));
  log.add(5, "b", {{"text", "caf\xE9"}});  // not UTF-8
  log.add(7, "a", {{"x", 1}});
  CHECK_FALSE(log.problem().has_value());
  CHECK(read(read_text(folder / "events.jsonl")) == std::pair(Steps{5, 7}, std::size_t{0}));
}

TEST_CASE("opening a log removes later steps and validations that will be repeated") {
  const TemporaryFolder folder;
  const auto path = folder / "events.jsonl";
  const std::string before = line(5, "validation") + line(10, "a");
  const std::string last = line(10, "validation"), rest = line(10, "time");
  struct Row {
    std::uint64_t step, validation_step;
    std::string kept;
  };
  for (const auto& [step, validation_step, kept] :
       {Row{99, 99, before + last + rest + line(11, "a")}, Row{10, 10, before + last + rest},
        Row{10, 9, before + rest}, Row{9, 9, line(5, "validation")}, Row{4, 4, ""}}) {
    const auto& shown = step;  // clang 14 cannot capture structured bindings
    CAPTURE(shown);
    folder.write("events.jsonl", before + last + rest + line(11, "a"));
    const EventLog log(path, step, validation_step);
    CHECK(read_text(path) == kept);
  }
}

TEST_CASE("opening a log removes incomplete or invalid lines at its end") {
  const TemporaryFolder folder;
  const auto path = folder / "events.jsonl";
  const std::string whole = line(5, "a") + line(10, "b");
  for (const std::string& end :
       {std::string("{\"step\":12,\"ev"), line(12, "a").substr(0, 20), line(3, "a"),
        std::string("step,a\n"), std::string("{\"step\":12}\n"), std::string(100'000, '\0')}) {
    folder.write("events.jsonl", whole + end);
    EventLog log(path, 99, 99);
    CHECK(read_text(path) == whole);
    log.add(12, "a", {{"x", 1}});
    CHECK(read_text(path) == whole + line(12, "a"));
    log.drop_after(7, 7);
    CHECK(read_text(path) == line(5, "a"));
  }
}

TEST_CASE("reading stops at the first invalid line, and counts the ignored lines") {
  const std::string good = line(5, "a");
  for (const std::string& bad :
       {std::string("x\n"), line(4, "a"), std::string("\n"),
        std::string("{\"step\":7,\"event\":\"a\",}\n"),
        std::string("{\"step\":7,\"event\":\"a\",\"x\":\"text\"}\n"),
        std::string("{\"step\":7,\"event\":\"a\"}\n"), std::string("{\"event\":\"a\",\"x\":1}\n"),
        "{\"step\":7,\"event\":\"a\",\"x\":" + std::string(100'000, '[') + "}\n"}) {
    CHECK(read(good + bad + line(9, "a") + "torn") == std::pair(Steps{5}, std::size_t{2}));
  }
  CHECK(read("").first.empty());
  CHECK(read(good.substr(0, good.size() - 1)).first.empty());
}

TEST_CASE("a log that cannot be written reports a problem and does not change other files") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "events.jsonl");
  EventLog log(folder / "events.jsonl", 0, 0);
  log.add(5, "a", Json::object());
  log.drop_after(0, 0);
  REQUIRE(log.problem().has_value());
  CHECK(contains(*log.problem(), "events.jsonl: could not be written: "));
  // Symbolic links are not followed.
  folder.write("other", "text");
  std::filesystem::create_symlink("other", folder / "link");
  CHECK(EventLog(folder / "link", 0, 0).problem().has_value());
  CHECK(read_text(folder / "other") == "text");
}

// ---- The log of a run.

TEST_CASE("a run warns about a log that cannot be written") {
  const test::TrainedWorkplace work;
  std::filesystem::remove(work / "runs/tiny/events.jsonl");
  std::filesystem::create_directory(work / "runs/tiny/events.jsonl");
  const test::Outcome done = work.run({"train", "--resume", "runs/tiny", "train.steps=14"});
  CHECK(done.code == 0);
  CHECK(contains(done.out, "\nwarning: runs/tiny/events.jsonl: could not be written: "));
}

TEST_CASE("a log of a terabyte is truncated to its lines without being read") {
  const test::TrainedWorkplace work;
  const auto path = work / "runs/tiny/events.jsonl";
  const std::string before = read_text(path);
  std::filesystem::resize_file(path, std::uintmax_t{1} << 40);
  CHECK(work.run({"train", "--resume", "runs/tiny", "train.steps=15"}).code == 0);
  CHECK(read_text(path).size() < before.size() + 100'000);
}

TEST_CASE("a run with the log files of an earlier version is resumed") {
  const test::TrainedWorkplace work;
  std::filesystem::remove(work / "runs/tiny/events.jsonl");
  for (const char* name :
       {"timing.csv", "time_use.csv", "recording.jsonl", "digests.csv", "history.txt"}) {
    work.write(std::string("runs/tiny/") + name, "step,time\n12,now\n");
  }
  const test::Outcome done = work.run({"train", "--resume", "runs/tiny", "train.steps=15"});
  CHECK(done.code == 0);
  CHECK_FALSE(contains(done.out, "warning"));
  CHECK(contains(test::event_lines(work / "runs/tiny", "speed"), "{\"step\":15,"));
}

}  // namespace
}  // namespace tapestry
