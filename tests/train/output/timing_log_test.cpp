#include "train/output/timing_log.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/support/temporary_folder.h"

namespace tapestry {
namespace {

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

const std::string heading = std::string(timing_heading) + "\n";
const std::string rows =
    "5,2026-01-02T03:04:05Z,1.000,0.2,100\n"
    "10,2026-01-02T03:04:06Z,2.000,0.2,100\n";

TEST_CASE("timing.csv has a heading and a row for each interval, written at once") {
  const test::TemporaryFolder folder;
  const auto path = folder / "timing.csv";
  TimingLog log(path, 0);
  CHECK(read(path) == heading);
  log.add({.step = 5, .elapsed_seconds = 1.25, .step_seconds = 0.25, .targets_per_second = 4000});
  const std::string text = read(path);
  CHECK(text.starts_with(heading + "5,20"));
  CHECK(text.ends_with("Z,1.25,0.25,4000\n"));
  CHECK_FALSE(log.problem().has_value());
}

TEST_CASE("a resumed run keeps the rows of timing.csv up to its step, and appends") {
  const test::TemporaryFolder folder;
  const auto path = folder / "timing.csv";
  write(path, heading + rows);
  TimingLog log(path, 10);
  CHECK(read(path) == heading + rows);
  log.drop_after(7);
  CHECK(read(path) == heading + rows.substr(0, rows.find('\n') + 1));
  log.add({.step = 10});
  CHECK(read(path).find("\n10,20") != std::string::npos);
  const TimingLog again(path, 4);
  CHECK(read(path) == heading);
}

TEST_CASE("an incomplete last line is removed, and so are all lines from an invalid one on") {
  const test::TemporaryFolder folder;
  const auto path = folder / "timing.csv";
  for (const std::string torn : {"12,2026", "12,2026-01-02T03:04:07Z,3.000,0.2,100", "x,y,1,1,1\n",
                                 "12,1\n", "3,2026-01-02T03:04:07Z,3.000,0.2,100\n"}) {
    CAPTURE(torn);
    write(path, heading + rows + torn);
    const TimingLog log(path, 20);
    CHECK(read(path) == heading + rows);
    CHECK_FALSE(log.problem().has_value());
  }
  for (const std::string text : {"", "step,ti", "step,time\n1,2\n"}) {
    CAPTURE(text);
    write(path, text);
    const TimingLog log(path, 20);
    CHECK(read(path) == heading);
  }
}

TEST_CASE("a timing.csv that cannot be written is a problem, not an error") {
  const test::TemporaryFolder folder;
  std::filesystem::create_directory(folder / "timing.csv");
  TimingLog log(folder / "timing.csv", 0);
  REQUIRE(log.problem().has_value());
  CHECK(log.problem()->find("timing.csv: could not be written: ") != std::string::npos);
  log.add({.step = 1});
  log.drop_after(0);
  // A link is not followed.
  write(folder / "other", "text");
  std::filesystem::create_symlink("other", folder / "link");
  const TimingLog link(folder / "link", 0);
  CHECK(link.problem().has_value());
  CHECK(read(folder / "other") == "text");
}

}  // namespace
}  // namespace tapestry
