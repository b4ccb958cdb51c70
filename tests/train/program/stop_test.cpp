#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/contains.h"
#include "tests/train/program.h"
#include "tests/train/terminal.h"
#include "train/base/format.h"
#include "train/checkpoint/run_directory.h"

/// What happens to a run when it is stopped, or when two want the same directory.
namespace tapestry {
namespace {

using test::Outcome;
using test::Process;
using test::TrainedWorkplace;
using test::Workplace;

/// The output of a process, line by line while it runs. A pipe with a name.
class LiveOutput {
 public:
  explicit LiveOutput(std::filesystem::path path) : path_(std::move(path)) {
    REQUIRE(::mkfifo(path_.c_str(), 0600) == 0);
    both_ends_ = ::open(path_.c_str(), O_RDWR | O_CLOEXEC);  // else opening one end waits
    REQUIRE(both_ends_ >= 0);
  }
  LiveOutput(const LiveOutput&) = delete;
  LiveOutput& operator=(const LiveOutput&) = delete;
  ~LiveOutput() {
    if (both_ends_ >= 0) ::close(both_ends_);
  }

  /// To be called once the process has started; the stream ends with it.
  std::ifstream lines() {
    std::ifstream stream(path_);
    ::close(both_ends_);
    both_ends_ = -1;
    return stream;
  }

 private:
  std::filesystem::path path_;
  int both_ends_ = -1;
};

/// A workplace with a run that was stopped by a signal while it trained without an end in sight.
struct StoppedWorkplace : Workplace {
  explicit StoppedWorkplace(int signal, const std::vector<std::string>& options = {},
                            const std::string& err = {}) {
    write("tiny.yaml", test::tiny_yaml);
    LiveOutput output(stream("live"));
    std::vector<std::string> arguments{"train", "tiny.yaml", "train.steps=1000000000",
                                       "train.save_every=1000000"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    Process training(path(), arguments,
                     {.out = stream("live"), .err = err.empty() ? stream("err").string() : err});
    std::ifstream progress = output.lines();
    std::string line;
    while (std::getline(progress, line) && !line.starts_with("step ")) continue;
    training.send(signal);
    while (std::getline(progress, line)) last_line = line;
    code = training.wait();
    const auto steps = RunDirectory(path() / "runs/tiny").steps();
    step = steps.empty() ? 0 : steps.back();
  }

  int code = 0;
  std::string last_line;
  std::uint64_t step = 0;  ///< of the newest checkpoint; 0: none
};

TEST_CASE("a run that is stopped by a signal saves, prints how to resume and exits with 128 + n") {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR2, SIGXCPU}) {
    CAPTURE(signal);
    const StoppedWorkplace work(signal);
    CHECK(work.code == 128 + signal);
    CHECK(work.last_line.starts_with("stopped by signal " + std::to_string(signal) +
                                     " and saved at step "));
    CHECK(work.last_line.ends_with("; resume with: tapestry train --resume runs/tiny"));
    CHECK(test::read_text(work.stream("err")).empty());
  }
}

TEST_CASE("SIGQUIT ends a run without a save") {
  const StoppedWorkplace work(SIGQUIT);
  CHECK(work.code == -SIGQUIT);
  CHECK(work.step == 0);
}

TEST_CASE("a terminal shows at once that the run stops and is saved") {
  if (test::has_no_terminals()) return;
  const test::Terminal terminal;
  const StoppedWorkplace work(SIGINT, {}, terminal.path());
  CHECK(work.code == 128 + SIGINT);
  CHECK(terminal.text() ==
        "\r\nstopping: the run is saved; a second signal ends it at once, without a save\r\n");
}

struct Stopped {
  int code;
  std::string last_line;
  int lines;  ///< after the signal
};

/// Starts `tapestry train` in a workplace with tiny.yaml and sends it SIGTERM after a line that
/// begins so.
///
/// err  standard error; a file if it is empty
Stopped stop_after(const std::string& line_start, const std::vector<std::string>& options,
                   const std::filesystem::path& err = {}) {
  const Workplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  LiveOutput output(work.stream("live"));
  std::vector<std::string> arguments{"train", "tiny.yaml"};
  arguments.insert(arguments.end(), options.begin(), options.end());
  Process training(work.path(), arguments,
                   {.out = work.stream("live"), .err = err.empty() ? work.stream("err") : err});
  std::ifstream lines = output.lines();
  std::string line, last_line;
  while (std::getline(lines, line) && !line.starts_with(line_start)) continue;
  CHECK(line.starts_with(line_start));
  training.send(SIGTERM);
  int count = 0;
  for (; std::getline(lines, line); ++count) last_line = line;
  return {training.wait(), last_line, count};
}

TEST_CASE("a step that takes minutes is reported, and a signal ends it at once") {
  const Stopped stopped = stop_after("a step takes up to ", {"train.accumulate=1000000"});
  CHECK(stopped.code == 128 + SIGTERM);
  CHECK(stopped.last_line.starts_with("stopped by signal 15 and saved at step 0; resume with: "));
}

TEST_CASE("a terminal shows at once that a long step ends") {
  if (test::has_no_terminals()) return;
  const test::Terminal terminal;
  stop_after("a step takes up to ", {"train.accumulate=1000000"}, terminal.path());
  CHECK(terminal.text() ==
        "\r\nstopping: the run is saved; a second signal ends it at once, without a save\r\n");
}

TEST_CASE("a second signal ends a long step at once, after the message about the first one") {
  if (test::has_no_terminals()) return;
  const test::Terminal terminal;
  const Workplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  LiveOutput output(work.stream("live"));
  Process training(work.path(), {"train", "tiny.yaml", "train.accumulate=1000000"},
                   {.out = work.stream("live"), .err = terminal.path()});
  std::ifstream lines = output.lines();
  std::string line;
  while (std::getline(lines, line) && !line.starts_with("a step takes up to ")) continue;
  CHECK(line.starts_with("a step takes up to "));
  // Stopped, the process cannot end its step between the two.
  for (const int signal : {SIGSTOP, SIGTERM, SIGINT, SIGCONT}) training.send(signal);
  const int code = training.wait();
  const bool ended_by_signal = code == -SIGTERM || code == -SIGINT;
  CHECK_MESSAGE(ended_by_signal, code);
  CHECK(terminal.text() ==
        "\r\nstopping: the run is saved; a second signal ends it at once, without a save\r\n");
  CHECK(RunDirectory(work / "runs/tiny").steps().empty());
}

TEST_CASE("a signal ends the measurement of a step of long sequences") {
  const Stopped stopped =
      stop_after("measuring memory and time of the largest step: ",
                 {"data.max_length=6000", "model.max_length=6001", "model.d_model=64",
                  "model.num_heads=8", "train.batch_size=20"});
  CHECK(stopped.code == 128 + SIGTERM);
  CHECK(stopped.last_line.starts_with("stopped by signal 15 and saved at step 0; resume with: "));
  CHECK(stopped.lines == 1);  // a measurement that ends by itself prints its result first
}

TEST_CASE("the time limit holds within a step") {
  const Workplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  const Outcome done =
      work.run({"train", "tiny.yaml", "train.accumulate=1000000", "train.max_time=2s"});
  CHECK(done.code == 124);
  CHECK(test::contains(done.out, "stopped by train.max_time (2s) and saved at step 0; "));
}

TEST_CASE("a signal and the time limit end a dry run, also within a step") {
  const Stopped stopped = stop_after("memory: ", {"--dry-run", "train.accumulate=1000000"});
  CHECK(stopped.code == 128 + SIGTERM);
  CHECK(stopped.last_line == "stopped by signal 15; nothing was written");
  const Workplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  const Outcome done = work.run(
      {"train", "tiny.yaml", "--dry-run", "train.accumulate=1000000", "train.max_time=1s"});
  CHECK(done.code == 124);
  CHECK(done.out.ends_with("\nstopped by the time limit, train.max_time; nothing was written\n"));
  CHECK_FALSE(std::filesystem::exists(work / "runs"));
}

TEST_CASE("a run with --profile that is stopped prints its profile") {
  const StoppedWorkplace work(SIGTERM, {"--profile"});
  CHECK(work.code == 128 + SIGTERM);
  CHECK(work.last_line.starts_with("stopped by signal "));
  const std::string log = test::read_text(work / "runs/tiny/train.log");
  CHECK(log.find(" seconds by operation; ") != std::string::npos);
  CHECK(log.find(" seconds by operation; ") < log.find("stopped by signal "));
}

TEST_CASE("a run stopped by a signal and resumed ends with the bytes of an uninterrupted run") {
  const StoppedWorkplace work(SIGTERM);
  const std::string steps = "train.steps=" + std::to_string(work.step + 7);
  const Outcome resumed = work.run({"train", "--resume", "runs/tiny", steps});
  CHECK(resumed.code == 0);
  const Outcome at_once =
      work.run({"train", "tiny.yaml", steps, "train.save_every=1000000", "train.run_dir=at-once"});
  CHECK(at_once.code == 0);
  const auto name = RunDirectory("").checkpoint_path(work.step + 7);
  const std::string expected = test::read_text(work.path() / "at-once" / name);
  CHECK_FALSE(expected.empty());
  CHECK(test::read_text(work.path() / "runs/tiny" / name) == expected);
  CHECK(test::read_text(work / "runs/tiny/metrics.csv") ==
        test::read_text(work / "at-once/metrics.csv"));
}

TEST_CASE("a second signal ends a run at once, without a save") {
  const Workplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  LiveOutput output(work.stream("live"));
  Process training(work.path(),
                   {"train", "tiny.yaml", "train.steps=1000000000", "train.save_every=1000000"},
                   {.out = work.stream("live"), .err = work.stream("err")});
  std::ifstream progress = output.lines();
  std::string line;
  while (std::getline(progress, line) && !line.starts_with("step ")) continue;
  // Stopped, the process cannot end its step between the two.
  for (const int signal : {SIGSTOP, SIGTERM, SIGINT, SIGCONT}) training.send(signal);
  const int code = training.wait();
  const bool ended_by_signal = code == -SIGTERM || code == -SIGINT;
  CHECK_MESSAGE(ended_by_signal, code);
  CHECK(RunDirectory(work / "runs/tiny").steps().empty());
}

TEST_CASE("SIGUSR1 saves a run, which continues") {
  const Workplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  LiveOutput output(work.stream("live"));
  Process training(work.path(),
                   {"train", "tiny.yaml", "train.steps=1000000000", "train.save_every=1000000",
                    "train.validate_every=1000000"},
                   {.out = work.stream("live"), .err = work.stream("err")});
  std::ifstream progress = output.lines();
  std::string line;
  const auto next_report = [&] {
    while (std::getline(progress, line) && !line.starts_with("step ")) continue;
  };
  next_report();
  const RunDirectory directory(work / "runs/tiny");
  CHECK(directory.steps().empty());
  training.send(SIGUSR1);
  while (directory.steps().empty() && progress) next_report();
  const auto saved = directory.steps();
  next_report();
  CHECK(progress.good());  // still training
  training.send(SIGTERM);
  while (std::getline(progress, line)) continue;
  CHECK(training.wait() == 128 + SIGTERM);
  REQUIRE(saved.size() == 1);
  CHECK(directory.steps().back() > saved[0]);
  CHECK(test::contains(test::read_text(work / "runs/tiny/train.log"),
                       "  saved at step " + format_count(saved[0]) + ", as a signal requested\n"));
}

TEST_CASE("a run at its time limit saves, prints how to resume and exits like timeout(1)") {
  const Workplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  const Outcome stopped =
      work.run({"train", "tiny.yaml", "train.steps=1000000000", "train.max_time=1s"});
  CHECK(stopped.code == 124);
  const auto steps = RunDirectory(work / "runs/tiny").steps();
  REQUIRE_FALSE(steps.empty());
  CHECK(stopped.out.find("\nstopped by train.max_time (1s) and saved at step ") !=
        std::string::npos);
  CHECK(stopped.out.ends_with("; resume with: tapestry train --resume runs/tiny\n"));
}

TEST_CASE("a run directory in use by another process is refused and unchanged") {
  const TrainedWorkplace work;
  const RunLock lock(work / "runs/tiny");
  const auto before = work.contents();
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"train", "--resume", "runs/tiny", "train.steps=20"},
        std::vector<std::string>{"train", "tiny.yaml", "--fresh"}}) {
    const Outcome refused = work.run(arguments);
    CHECK(refused.code == 7);
    CHECK(refused.out.empty());
    CHECK(
        refused.err.starts_with("tapestry: error: runs/tiny: the run directory is in use by pid " +
                                std::to_string(::getpid()) + " on "));
    CHECK(refused.err.ends_with(
        "\nhint: wait for that process to end, or use another run directory\n"));
    CHECK(work.contents() == before);
  }
}

TEST_CASE("a run whose lock file was replaced by another process ends without a save") {
  const Workplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  LiveOutput output(work.stream("live"));
  Process training(work.path(),
                   {"train", "tiny.yaml", "train.steps=1000000000", "train.save_every=1000000",
                    "train.validate_every=1000000"},
                   {.out = work.stream("live"), .err = work.stream("err")});
  std::ifstream progress = output.lines();
  std::string line;
  while (std::getline(progress, line) && !line.starts_with("step ")) continue;
  std::filesystem::remove(work / "runs/tiny/.lock");
  const RunLock second(work / "runs/tiny");
  training.send(SIGTERM);
  CHECK(training.wait() == 7);
  CHECK(test::read_text(work.stream("err"))
            .starts_with("tapestry: error: runs/tiny: found another lock file than the one of this "
                         "process, which another process has put there: this process stops "
                         "without saving\nhint: "));
  CHECK(RunDirectory(work / "runs/tiny").steps().empty());
  CHECK_FALSE(std::filesystem::exists(work / "runs/tiny/metrics.csv"));
}

TEST_CASE("a new run in a directory in which another process has just begun one is refused") {
  const Workplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  std::filesystem::create_directories(work / "runs/tiny/checkpoints");
  const RunLock lock(work / "runs/tiny");
  const auto before = work.contents();
  CHECK(work.run({"train", "tiny.yaml"}).code == 7);
  CHECK(work.contents() == before);
}

TEST_CASE("a run that ended before its first checkpoint is replaced by a new one") {
  const Workplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  std::filesystem::create_directories(work / "runs/tiny/checkpoints");
  work.write("runs/tiny/config.yaml", "of the run that died");
  const std::string leftover = "runs/tiny/checkpoints/.step-00000000.h5.tmp-1-0";
  work.write(leftover, "of the run that died");
  CHECK(work.run({"train", "tiny.yaml"}).code == 0);
  CHECK_FALSE(std::filesystem::exists(work / leftover));
}

TEST_CASE("a run whose output cannot be written trains to its end") {
  const Workplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  const Outcome done = work.run({"train", "tiny.yaml"}, test::Streams{.out = "/dev/full"});
  CHECK(done.code == 0);
  CHECK(std::filesystem::exists(work / "runs/tiny/checkpoints/step-00000012.h5"));
}

}  // namespace
}  // namespace tapestry
