// SPDX-License-Identifier: BSD-3-Clause
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/train/program.h"
#include "tests/train/terminal.h"
#include "train/base/format.h"
#include "train/checkpoint/run_directory.h"
#include "train/checkpoint/run_lock.h"

/// Tests runs that are stopped, and runs that use the directory of another run.
namespace tapestry {
namespace {

using test::check_words;
using test::contains;
using test::Outcome;
using test::TinyWorkplace;

/// `tapestry train` in a workplace with tiny.yaml. While it runs, its output is read line by line
/// through a named pipe.
class Training : public TinyWorkplace {
 public:
  /// err  path of standard error; empty: a file outside the workplace
  explicit Training(const std::string& arguments, const std::string& err = {})
      : pipe_(stream("live")),
        both_ends_(open_pipe(pipe_)),
        process_(path(), "train tiny.yaml " + arguments,
                 {.out = pipe_, .err = err.empty() ? stream("err").string() : err}),
        lines_(pipe_) {
    ::close(both_ends_);  // the stream ends with the process
  }

  /// Reads up to a line that starts with `begin`; returns whether there is one.
  bool read_to(const std::string& begin) {
    while (std::getline(lines_, line_)) {
      if (line_.starts_with(begin)) return true;
    }
    return false;
  }

  void send(int signal) const { process_.send(signal); }

  /// Waits until the process handles or ignores a signal.
  void await_handler(int signal) const {
    const std::string status = fmt::format("/proc/{}/status", process_.id());
    for (std::uint64_t set = 0; (set >> static_cast<unsigned>(signal - 1) & 1U) == 0;) {
      set = 0;
      const std::string text = test::read_text(status);
      for (const char* name : {"SigCgt:", "SigIgn:"}) {
        const std::size_t at = text.find(name);
        REQUIRE(at != text.npos);
        set |= std::stoull(text.substr(at + 7), nullptr, 16);
      }
    }
  }

  /// Waits until the process has computed for 150 ms, longer than the program needs to start.
  void await_computation() const {
    const std::string path = fmt::format("/proc/{}/stat", process_.id());
    const double clock_ticks = 0.15 * static_cast<double>(::sysconf(_SC_CLK_TCK));
    for (double used = 0; used < clock_ticks;) {
      const std::string text = test::read_text(path);
      std::istringstream fields(text.substr(text.rfind(')') + 1));
      std::string state, skipped;
      fields >> state;
      REQUIRE(state != "Z");  // the process has ended
      for (int field = 4; field < 14; ++field) fields >> skipped;
      double user = 0, system = 0;
      fields >> user >> system;
      used = user + system;
      ::usleep(1000);
    }
  }

  /// Reads all output and returns the exit code.
  int end() {
    for (rest_ = 0; std::getline(lines_, line_); ++rest_) last_line_ = line_;
    return process_.wait();
  }
  const std::string& last_line() const { return last_line_; }
  /// The number of lines that end() has read.
  int rest() const { return rest_; }

  RunDirectory directory() const { return RunDirectory(*this / "runs/tiny"); }

 private:
  static int open_pipe(const std::string& path) {
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    const int both_ends =
        ::open(path.c_str(), O_RDWR | O_CLOEXEC);  // opening only one end would block
    REQUIRE(both_ends >= 0);
    return both_ends;
  }

  std::string pipe_;
  int both_ends_;
  test::Process process_;
  std::ifstream lines_;
  std::string line_, last_line_;
  int rest_ = 0;
};

/// Overrides for a run that does not end by itself.
const std::string endless =
    "train.steps=1000000000 train.save_every=1000000 train.validate_every=1000000 ";
/// Overrides for a run whose steps take minutes.
const std::string long_step = "train.accumulate=1000000 ";

const std::string stopping =
    "\r\nstopping after a save; a second signal ends the run immediately, without a save\r\n";

TEST_CASE("a run that is stopped by a signal saves, prints how to resume and exits with 128 + n") {
  const std::vector<std::pair<int, std::string>> reasons = {{SIGTERM, "stopped by SIGTERM"},
                                                            {SIGINT, "interrupted (SIGINT, "},
                                                            {SIGHUP, "stopped by SIGHUP"},
                                                            {SIGUSR2, "stopped by SIGUSR2"},
                                                            {SIGXCPU, "stopped by SIGXCPU"}};
  for (const auto& each : reasons) {
    const int signal = each.first;
    CAPTURE(signal);
    Training work(endless + (signal == SIGTERM ? "--profile" : ""));
    REQUIRE(work.read_to("step "));
    work.send(signal);
    CHECK(work.end() == 128 + signal);
    CHECK(work.last_line().starts_with(each.second));
    CHECK(contains(work.last_line(), " and saved at step "));
    CHECK(work.last_line().ends_with("; resume with: tapestry train --resume runs/tiny"));
    CHECK(test::read_text(work.stream("err")).empty());
    if (signal != SIGTERM) continue;
    const std::string log = work.read("runs/tiny/train.log");
    CHECK(log.find(" seconds by operation; ") < log.find("stopped by SIGTERM"));

    // The resumed run ends with the same bytes as an uninterrupted run.
    const std::uint64_t end = work.directory().steps().back() + 7;
    const std::string steps = "train.steps=" + std::to_string(end);
    work.out("train --resume runs/tiny " + steps);
    work.out("train tiny.yaml train.run_dir=at-once " + endless + steps);
    CHECK(work.read(work.checkpoint(end)) == work.read(work.checkpoint(end, "at-once")));
    CHECK(work.read("runs/tiny/metrics.csv") == work.read("at-once/metrics.csv"));
  }
}

/// Overrides for data that take a second to load.
const std::string slow_data = "data.train_size=1500000 train.steps=1 ";

TEST_CASE(
    "SIGUSR1 while a run loads data causes a later save; other signals end the run with 128 + n") {
  Training saved(slow_data);
  saved.await_handler(SIGUSR1);
  saved.send(SIGUSR1);
  CHECK(saved.read_to("saved at step 1 (requested by a signal)"));
  CHECK(saved.end() == 0);
  for (const int signal : {SIGUSR2, SIGXCPU, SIGINT, SIGTERM, SIGHUP}) {
    CAPTURE(signal);
    for (const std::string way : {"", "--dry-run "}) {
      Training work(way + slow_data);
      work.await_computation();  // the data are being generated
      work.send(signal);
      CHECK(work.end() == 128 + signal);
      check_words(test::read_text(work.stream("err")),
                  {fmt::format("stopped by SIG{} ", ::sigabbrev_np(signal)), "nothing to save"});
      CHECK_FALSE(work.has("runs"));
    }
  }
}

TEST_CASE("SIGQUIT, or a second signal, ends a run immediately without a save") {
  Training quit(endless);
  REQUIRE(quit.read_to("step "));
  quit.send(SIGQUIT);
  CHECK(quit.end() == -SIGQUIT);
  CHECK(quit.directory().steps().empty());
  for (const bool in_long_step : {false, true}) {
    CAPTURE(in_long_step);
    Training work(in_long_step ? long_step : endless);
    REQUIRE(work.read_to(in_long_step ? "a step takes up to " : "step "));
    // While the process is stopped, it cannot end its step between the two signals.
    for (const int signal : {SIGSTOP, SIGTERM, SIGINT, SIGCONT}) work.send(signal);
    const int code = work.end();
    const bool ended_by_signal = code == -SIGTERM || code == -SIGINT;
    CHECK_MESSAGE(ended_by_signal, code);
    CHECK(work.directory().steps().empty());
  }
}

TEST_CASE("a terminal shows immediately that a run will save and stop, even during a long step") {
  if (test::has_no_terminals()) return;
  for (const bool in_long_step : {false, true}) {
    CAPTURE(in_long_step);
    const test::Terminal terminal;
    Training work(in_long_step ? long_step : endless, terminal.path());
    REQUIRE(work.read_to(in_long_step ? "a step takes up to " : "step "));
    work.send(SIGINT);
    CHECK(work.end() == 128 + SIGINT);
    CHECK(terminal.text() == stopping);
  }
}

TEST_CASE("a run reports a step or measurement that takes minutes, and a signal ends it") {
  for (const auto& [arguments, line] : std::vector<std::pair<std::string, std::string>>{
           {long_step, "a step takes up to "},
           {"data.max_length=6000 model.max_length=6001 model.d_model=64 model.num_heads=8 "
            "train.batch_size=20",
            "measuring memory and time of the largest step: "},
           {"--dry-run " + long_step, "memory: "}}) {
    const auto& shown = arguments;  // clang 14 cannot capture a structured binding
    CAPTURE(shown);
    Training work(arguments);
    REQUIRE(work.read_to(line));
    work.send(SIGTERM);
    CHECK(work.end() == 128 + SIGTERM);
    const bool dry = arguments.starts_with("--dry-run");
    CHECK(work.last_line().starts_with(dry ? "stopped by SIGTERM; nothing was written"
                                           : "stopped by SIGTERM and saved at step 0; resume"));
    // A measurement that ends by itself prints its result first.
    if (line.starts_with("measuring")) CHECK(work.rest() == 1);
    CHECK(work.has("runs") == !dry);
  }
}

TEST_CASE("a run at its time limit saves, prints how to resume and exits like timeout(1)") {
  const TinyWorkplace work;
  const Outcome stopped = work.run("train tiny.yaml train.max_time=1s " + endless);
  CHECK(stopped.code == 124);
  CHECK_FALSE(RunDirectory(work / "runs/tiny").steps().empty());
  CHECK(contains(stopped.out, "\nstopped by train.max_time (1s) and saved at step "));
  CHECK(stopped.out.ends_with("; resume with: tapestry train --resume runs/tiny\n"));
  const Outcome within = work.run("train tiny.yaml --fresh train.max_time=1s " + long_step);
  CHECK(within.code == 124);
  CHECK(contains(within.out, "stopped by train.max_time (1s) and saved at step 0; "));
  const Outcome dry =
      work.run("train tiny.yaml train.run_dir=dry --dry-run train.max_time=1s " + long_step);
  CHECK(dry.code == 124);
  CHECK(contains(dry.out, "\nstopped by the time limit, train.max_time; nothing was written\n"));
  CHECK_FALSE(work.has("dry"));
}

TEST_CASE("SIGUSR1 saves a run without stopping it") {
  Training work(endless);
  REQUIRE(work.read_to("step "));
  const RunDirectory directory = work.directory();
  CHECK(directory.steps().empty());
  work.send(SIGUSR1);
  while (directory.steps().empty() && work.read_to("step ")) continue;
  const auto saved = directory.steps();
  CHECK(work.read_to("step "));  // still training
  work.send(SIGTERM);
  CHECK(work.end() == 128 + SIGTERM);
  REQUIRE(saved.size() == 1);
  CHECK(directory.steps().back() > saved[0]);
  CHECK(contains(work.read("runs/tiny/train.log"),
                 "  saved at step " + format_count(saved[0]) + " (requested by a signal)\n"));
}

// ---- Locks

TEST_CASE("a run directory in use by another process is rejected and unchanged") {
  const test::TrainedWorkplace work;
  const RunLock lock(work / "runs/tiny");
  std::filesystem::create_directories(work / "begun/checkpoints");
  const RunLock of_begun(work / "begun");  // as if another process had just begun a run in it
  const std::string holder =
      "runs/tiny: the run directory is in use by pid " + std::to_string(::getpid()) + " on ";
  check_rows(work,
             {{"train --resume runs/tiny train.steps=20", 7, {holder, "wait for that"}},
              {"train tiny.yaml --fresh", 7, {holder}},
              {"train tiny.yaml train.run_dir=begun", 7, {"begun: the run directory is in"}}});
}

TEST_CASE("a run whose lock file was replaced by another process ends without a save") {
  Training work(endless);
  REQUIRE(work.read_to("step "));
  std::filesystem::remove(work / "runs/tiny/.lock");
  const RunLock second(work / "runs/tiny");
  work.send(SIGTERM);
  CHECK(work.end() == 7);
  check_words(test::read_text(work.stream("err")),
              {"runs/tiny: another process has replaced the lock file", "\nhint: "});
  CHECK(work.directory().steps().empty());
  CHECK_FALSE(work.has("runs/tiny/metrics.csv"));
}

TEST_CASE("a run that ended before its first checkpoint is replaced by a new run") {
  const TinyWorkplace work;
  std::filesystem::create_directories(work / "runs/tiny/checkpoints");
  const std::string leftover = "runs/tiny/checkpoints/.step-00000000.h5.tmp-1-0";
  for (const std::string& file : {std::string("runs/tiny/config.yaml"), leftover}) {
    work.write(file, "of the run that died");
  }
  work.out("train tiny.yaml");
  CHECK_FALSE(work.has(leftover));
}

}  // namespace
}  // namespace tapestry
