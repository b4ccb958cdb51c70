// SPDX-License-Identifier: BSD-3-Clause
#include "train/loop/progress.h"

#include <doctest/doctest.h>
#include <stdlib.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <thread>

#include "tests/support/contains.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/limits.h"
#include "tests/train/program.h"
#include "tests/train/terminal.h"
#include "train/base/error.h"

namespace tapestry {
namespace {

using Json = nlohmann::json;
using test::contains;
using test::TemporaryFolder;

const TrainMetrics metrics{.step = 50,
                           .epoch = 2,
                           .loss = 0.5,
                           .perplexity = 1.25,
                           .learning_rate = 1e-3,
                           .gradient_norm = 0.75,
                           .target_tokens = 640};
const std::string scores = "loss 0.2500  accuracy 96.10 %";

/// An output that is not a terminal.
class PlainOutput {
 public:
  ~PlainOutput() {
    std::fclose(file_);
    std::free(bytes_);
  }
  PlainOutput() = default;
  PlainOutput(const PlainOutput&) = delete;
  PlainOutput& operator=(const PlainOutput&) = delete;

  std::FILE* file() const { return file_; }
  std::string text() const {
    std::fflush(file_);
    return {bytes_, size_};
  }

 private:
  char* bytes_ = nullptr;
  std::size_t size_ = 0;
  std::FILE* file_ = ::open_memstream(&bytes_, &size_);
};

/// Sets TERM, or unsets it if the type is null. The destructor unsets TERM or restores the previous
/// value.
class TerminalType {
 public:
  explicit TerminalType(const char* type) {
    if (const char* const before = std::getenv("TERM")) before_ = before;
    set(type);
  }
  ~TerminalType() { set(before_ ? before_->c_str() : nullptr); }
  TerminalType(const TerminalType&) = delete;
  TerminalType& operator=(const TerminalType&) = delete;

 private:
  static void set(const char* type) {
    type != nullptr ? ::setenv("TERM", type, 1) : ::unsetenv("TERM");
  }

  std::optional<std::string> before_;
};

struct Terminal : TerminalType, test::Terminal {
  explicit Terminal(const char* type = "xterm") : TerminalType(type) {}
};

TEST_CASE("without a terminal each report is a plain line and steps print nothing") {
  const PlainOutput output;
  Progress progress(output.file(), 0, 1000, "images");
  progress.message("hello");
  progress.step(1, 64, 0.5);
  progress.validation({.step = 50, .text = scores, .best = true});
  progress.validation({.step = 100, .text = scores, .best = false});
  const std::string lines = "hello\nvalidation at step 50: " + scores +
                            "  (best so far)\nvalidation at step 100: " + scores + "\n";
  CHECK(output.text() == lines);
  progress.metrics(metrics);
  CHECK(output.text().starts_with(
      lines +
      "step   50/1000  epoch 2  loss 0.5000  lr 1.00e-03  gradient 0.750  "
      "0 images/s  "));
  CHECK(output.text().ends_with(" left\n"));
}

TEST_CASE("in JSON mode, each event of a run is an object on one line") {
  const PlainOutput output;
  Progress progress(output.file(), 3, 9, "tokens", ProgressFormat::json);
  progress.start({.run_dir = "runs/a",
                  .kind = "seq2seq",
                  .first_step = 3,
                  .total_steps = 9,
                  .parameters = 100});
  progress.message("two\nlines");
  progress.message("warning: slow");
  progress.step(7, 64, 0.5);
  progress.checkpoint(7, "a\xff/b");
  progress.end(130);
  CHECK(output.text() ==
        "{\"event\":\"start\",\"run_dir\":\"runs/a\",\"kind\":\"seq2seq\",\"first_step\":3,"
        "\"steps\":9,\"parameters\":100}\n"
        "{\"event\":\"message\",\"warning\":false,\"text\":\"two\\nlines\"}\n"
        "{\"event\":\"message\",\"warning\":true,\"text\":\"slow\"}\n"
        "{\"event\":\"checkpoint\",\"step\":7,\"file\":\"a\ufffd/b\"}\n"
        "{\"event\":\"end\",\"step\":7,\"exit_code\":130}\n");
}

TEST_CASE("non-finite numbers are null in JSON lines") {
  const PlainOutput output;
  Progress progress(output.file(), 0, 1000, "tokens", ProgressFormat::json);
  TrainMetrics diverged = metrics;
  diverged.loss = std::nan("");
  progress.metrics(diverged);
  progress.validation({.step = 50, .text = scores, .scores = {{"bleu", 12.5}}, .best = true});
  std::istringstream lines(output.text());
  std::string line;
  std::getline(lines, line);
  const Json step = Json::parse(line);
  CHECK(step["event"] == "step");
  CHECK(step["step"] == 50);
  CHECK(step["loss"].is_null());
  CHECK(step["targets"] == 640);
  CHECK(step["targets_per_second"] == 0.0);
  std::getline(lines, line);
  CHECK(Json::parse(line) ==
        Json{{"event", "validation"}, {"step", 50}, {"best", true}, {"scores", {{"bleu", 12.5}}}});
}

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

TEST_CASE("the time left of a resumed run is estimated from the steps since the resume") {
  const PlainOutput output;
  const auto before = Clock::now();
  Progress progress(output.file(), 1'000'000, 2'000'000);
  const auto behind = Clock::now();
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  TrainMetrics first = metrics;
  first.step = 1'000'001;
  const double least = 999'999 * seconds_since(behind);  // nearly three hours
  progress.metrics(first);
  const double most = 999'999 * seconds_since(before);
  const std::string text = output.text();
  int hours = 0, minutes = 0, seconds = 0;
  const std::string left = text.substr(text.rfind("  ") + 2);
  REQUIRE(std::sscanf(left.c_str(), "%d:%d:%d left", &hours, &minutes, &seconds) == 3);
  CHECK(3600 * hours + 60 * minutes + seconds >= least - 1);
  CHECK(3600 * hours + 60 * minutes + seconds <= most + 1);
}

/// The speed in the last line of a text.
double speed_in(const std::string& text) {
  const std::size_t end = text.rfind(" tokens/s");
  std::string number = text.substr(0, end).substr(text.rfind("  ", end) + 2);
  std::erase(number, ',');
  return std::stod(number);
}

TEST_CASE("the speed counts all predicted tokens since the last line of metrics") {
  const PlainOutput output;
  const auto before = Clock::now();
  Progress progress(output.file(), 0, 1000);
  const auto behind = Clock::now();
  for (std::uint64_t step = 1; step <= 5; ++step) progress.step(step, 1'000'000, 0.5);
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const double most = 5e6 / seconds_since(behind);
  progress.metrics(metrics);
  const double least = 5e6 / seconds_since(before);
  const double speed = speed_in(output.text());
  CHECK(speed > least - 1.0);
  CHECK(speed <= most);
  progress.metrics(metrics);
  CHECK(speed_in(output.text()) == 0.0);
  progress.step(6, 1'000'000, 0.5);
  progress.validation({.step = 50, .text = scores, .best = true});
  progress.metrics(metrics);
  CHECK(speed_in(output.text()) == 0.0);
}

TEST_CASE("each line is also appended to the log file with its date and time") {
  const TemporaryFolder folder;
  const std::string path = folder / "train.log";
  for (const char* text : {"first", "second {}"}) {
    Progress progress(nullptr, 0, 10);
    progress.message("before there is a log");
    progress.log_to(path);
    progress.message(text);
  }
  const std::string log = test::read_text(path);
  const std::string time = "2000-01-01 00:00:00  ";
  REQUIRE(log.size() == 2 * time.size() + std::string("first\nsecond {}\n").size());
  CHECK(log.substr(time.size(), 6) == "first\n");
  CHECK(log.ends_with("  second {}\n"));
  CHECK(log.starts_with("20"));
}

TEST_CASE("a log file that cannot be written causes one warning, and the lines are still printed") {
  const TemporaryFolder folder;
  const std::string path = folder / "train.log";
  const PlainOutput output;
  Progress progress(output.file(), 0, 100);
  progress.log_to(path);
  const auto action = std::signal(SIGXFSZ, SIG_IGN);
  {
    const test::ResourceLimit no_file_grows(RLIMIT_FSIZE, 0);
    REQUIRE(no_file_grows.is_set());
    progress.message("first");
    progress.message("second");
  }
  std::signal(SIGXFSZ, action);
  CHECK(output.text() ==
        "warning: " + path +
            ": could not be written: File too large; lines of the log are missing\n"
            "first\nsecond\n");
}

TEST_CASE("a log file that cannot be opened is an output error") {
  const TemporaryFolder folder;
  Progress progress(nullptr, 0, 10);
  CHECK_THROWS_AS(progress.log_to(folder.path().string()), OutputError);
}

TEST_CASE("on a terminal a live line is drawn, and erased for other lines and at the end") {
  if (test::has_no_terminals()) return;
  const Terminal terminal;
  {
    Progress progress(terminal.file(), 0, 1000);
    for (int i = 0; i < 30; ++i) progress.step(1, 64, 0.5);
    const std::string live = terminal.shown();
    CHECK(std::ranges::count(live, '\r') < 30);  // not redrawn for every step
    CHECK(live.starts_with("\r\033[K[----------]  step 1/1000  loss 0.5000  "));
    CHECK(contains(live, " left"));
    progress.message("hello");
    CHECK(terminal.shown() == "\r\033[Khello\r\n");
  }
  CHECK(terminal.shown() == "\r\033[K");
}

/// The live line that a step draws, without the sequence that erases the previous line.
std::string live_line(const Terminal& terminal, const std::string& targets = "tokens") {
  std::string drawn;
  {
    Progress progress(terminal.file(), 0, 1000, targets);
    progress.step(1, 64, 0.5);
    drawn = terminal.shown();
  }
  CHECK(terminal.shown() == "\r\033[K");
  REQUIRE(drawn.starts_with("\r\033[K"));
  return drawn.substr(4);
}

TEST_CASE("the live line fits the width of the terminal, even after the width changes") {
  if (test::has_no_terminals()) return;
  const Terminal terminal;
  for (const int columns : {90, 12, 40, 1, 26, 25}) {
    CAPTURE(columns);
    terminal.resize(static_cast<unsigned short>(columns));
    CHECK(static_cast<int>(live_line(terminal).size()) < columns);
  }
  terminal.resize(26);
  CHECK(live_line(terminal) == "step 1/1000  loss 0.5000");
  terminal.resize(108);  // the width counts characters, not bytes
  CHECK(contains(live_line(terminal, "ähnlichkeitsmaße äöüßäöüßäöüßäöüß"), "äöüß/s  "));
}

TEST_CASE("a terminal without escape sequences gets plain lines") {
  if (test::has_no_terminals()) return;
  for (const char* type : {"dumb", "", static_cast<const char*>(nullptr)}) {
    const Terminal terminal(type);
    {
      Progress progress(terminal.file(), 0, 1000);
      progress.step(1, 64, 0.5);
      progress.message("hello");
    }
    CHECK(terminal.shown() == "hello\r\n");
  }
}

TEST_CASE("a delayed message is printed once, when the first step ends after the message is due") {
  const PlainOutput output;
  Progress progress(output.file(), 0, 1000);
  int calls = 0;
  const auto text = [&] { return std::optional<std::string>(++calls == 1 ? "late" : "again"); };
  progress.message_later(std::chrono::hours(1), text);
  progress.step(1, 64, 0.5);
  CHECK(output.text().empty());
  progress.message_later(std::chrono::seconds(0), text);
  CHECK(output.text().empty());
  progress.step(2, 64, 0.5);
  progress.step(3, 64, 0.5);
  CHECK(output.text() == "late\n");
  progress.message_later(std::chrono::seconds(0), [] { return std::optional<std::string>(); });
  progress.step(4, 64, 0.5);
  CHECK(output.text() == "late\n");
}

TEST_CASE("an output that cannot be written does not stop the run and causes one log warning") {
  const TemporaryFolder folder;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> full{std::fopen("/dev/full", "w"),
                                                             std::fclose};
  REQUIRE(full != nullptr);
  Progress progress(full.get(), 0, 10);
  CHECK_NOTHROW(progress.message("nobody reads this"));
  CHECK(progress.output_error() == ENOSPC);
  progress.log_to(folder / "train.log");
  CHECK_NOTHROW(progress.metrics(metrics));
  CHECK_NOTHROW(progress.message("nor this"));
  const std::string log = test::read_text(folder / "train.log");
  const auto warning = log.find("warning: standard output could not be written: No space left");
  REQUIRE(warning != log.npos);
  CHECK(log.find("warning: ", warning + 1) == log.npos);
}

}  // namespace
}  // namespace tapestry
