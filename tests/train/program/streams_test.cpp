#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/train/refusal.h"

/// What the program does where a standard stream is closed, broken or on a full disk.
namespace tapestry {
namespace {

using test::Arguments;
using test::Outcome;
using test::Streams;
using test::TrainedWorkplace;
using test::Workplace;

/// Every command that is there for what it prints.
const std::vector<Arguments> printing_commands = {
    {"--help"},
    {"--version"},
    {"train", "--help"},
    {"translate", "--help"},
    {"classify", "--help"},
    {"fill", "--help"},
    {"completion", "bash"},
    {"man"},
    {"evaluate", "runs/tiny"},
    {"translate", "runs/tiny"},
    {"inspect", "runs/tiny"},
    {"bleu", "tiny.yaml", "--reference", "tiny.yaml"},
    {"compare", "tiny.yaml", "tiny.yaml", "tiny.yaml"},
    {"gradcheck", "tiny.yaml", "--coordinates", "2"},
    {"gradcheck", "tiny.yaml", "--coordinates", "2", "--json"},
    {"check", "tiny.yaml"},
    {"plan", "tiny.yaml", "--seconds", "0.01"},
    {"plan", "tiny.yaml", "--seconds", "0.01", "--json"},
};

/// A pipe whose reader is gone.
class BrokenPipe {
 public:
  BrokenPipe() {
    REQUIRE(::pipe2(ends_.data(), O_CLOEXEC) == 0);
    ::close(ends_[0]);
  }
  ~BrokenPipe() { ::close(ends_[1]); }
  BrokenPipe(const BrokenPipe&) = delete;
  BrokenPipe& operator=(const BrokenPipe&) = delete;

  int descriptor() const { return ends_[1]; }

 private:
  std::array<int, 2> ends_{};
};

void check_output_error(
    const TrainedWorkplace& work, const Streams& streams,
    const std::string& hint =
        "send it to a disk with free space, or to a program that reads all of it") {
  const auto before = work.contents();
  for (const Arguments& arguments : printing_commands) {
    CAPTURE(arguments);
    const Outcome refused = work.run(arguments, streams);
    CHECK(refused.code == 5);
    CHECK(refused.err.starts_with("tapestry: error: standard output: could not be written"));
    CHECK(refused.err.ends_with("\nhint: " + hint + "\n"));
  }
  CHECK(work.contents() == before);
}

/// Handles SIGPIPE as chosen, in this process and in those that it starts, while it is alive.
class BrokenPipeAction {
 public:
  explicit BrokenPipeAction(void (*action)(int)) : before_(std::signal(SIGPIPE, action)) {}
  ~BrokenPipeAction() { std::signal(SIGPIPE, before_); }
  BrokenPipeAction(const BrokenPipeAction&) = delete;
  BrokenPipeAction& operator=(const BrokenPipeAction&) = delete;

 private:
  void (*before_)(int);
};

TEST_CASE("every command that prints notices a full disk and a closed output") {
  const TrainedWorkplace work;
  work.write("input", "a\n");
  const std::string input = work / "input";
  check_output_error(work, {.in = input, .out = "/dev/full"});
  check_output_error(work, {.in = input, .out = ""});
}

TEST_CASE("SIGPIPE ends a command whose reader is gone without a word, as other Unix tools") {
  const TrainedWorkplace work;
  work.write("input", "a\n");
  const auto before = work.contents();
  const BrokenPipe pipe;
  const BrokenPipeAction action(SIG_DFL);
  for (const Arguments& arguments : printing_commands) {
    CAPTURE(arguments);
    const Outcome ended =
        work.run(arguments, Streams{.in = work / "input", .out_descriptor = pipe.descriptor()});
    CHECK(ended.code == -SIGPIPE);
    CHECK(ended.err.empty());
  }
  CHECK(work.contents() == before);
}

TEST_CASE("a command that was started with SIGPIPE ignored says that its reader is gone") {
  const TrainedWorkplace work;
  work.write("input", "a\n");
  const BrokenPipe pipe;
  const BrokenPipeAction action(SIG_IGN);
  check_output_error(work, {.in = work / "input", .out_descriptor = pipe.descriptor()},
                     "the reader closed the pipe early; the results are not affected");
}

TEST_CASE("a run goes on to the same bytes without its reader, or with all its streams closed") {
  const TrainedWorkplace work;
  const std::string expected = test::read_text(work / work.checkpoint(12));
  const BrokenPipe pipe;
  const BrokenPipeAction action(SIG_DFL);
  for (const Streams& streams :
       {Streams{.out = "/dev/full", .err = "/dev/full"},
        Streams{.out_descriptor = pipe.descriptor()}, Streams{.in = "", .out = "", .err = ""}}) {
    REQUIRE(work.run({"train", "tiny.yaml", "--fresh"}, streams).code == 0);
    CHECK(test::read_text(work / work.checkpoint(12)) == expected);
    const std::string log = test::read_text(work / "runs/tiny/train.log");
    const std::string warning = "warning: standard output could not be written: ";
    CHECK(log.find(warning) != log.npos);
    CHECK(log.find(warning) == log.rfind(warning));
  }
}

TEST_CASE("a dry run whose output cannot be written fails, with the reason") {
  const TrainedWorkplace work;
  const Arguments arguments = {"train", "tiny.yaml", "--fresh", "--dry-run"};
  const auto before = work.contents();
  const Outcome full = work.run(arguments, Streams{.out = "/dev/full"});
  CHECK(full.code == 5);
  CHECK(full.err ==
        "tapestry: error: standard output: could not be written: No space left on device\n"
        "hint: send it to a disk with free space, or to a program that reads all of it\n");
  CHECK(work.run(arguments, Streams{.out = ""}).code == 5);
  CHECK(work.contents() == before);
}

TEST_CASE("the exit code tells of a refusal that nobody can read") {
  const Workplace work;
  for (const char* err : {"/dev/full", ""}) {
    CHECK(work.run({"train", "nowhere.yaml"}, Streams{.err = err}).code == 2);
    CHECK(work.run({"evaluate", "nowhere"}, Streams{.err = err}).code == 4);
  }
}

TEST_CASE("a warning that nobody can read is no error") {
  const TrainedWorkplace work;
  std::filesystem::resize_file(work / work.checkpoint(12), 1000);
  CHECK(work.run({"inspect", "runs/tiny"}, Streams{.err = "/dev/full"}).code == 0);
}

}  // namespace
}  // namespace tapestry
