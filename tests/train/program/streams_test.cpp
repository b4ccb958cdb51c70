#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/contains.h"
#include "tests/train/kind_configs.h"
#include "tests/train/refusal.h"

/// What the program does where a standard stream is closed, broken or on a full disk.
namespace tapestry {
namespace {

using test::Arguments;
using test::contains;
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
    {"classify", "runs/classes"},
    {"tag", "runs/tags"},
    {"fill", "runs/masked"},
    {"generate", "runs/words", "le", "--tokens", "2"},
    {"attention", "runs/tiny"},
    {"score", "runs/tiny", "input", "input"},
    {"errors", "runs/tiny"},
    {"runs"},
    {"diff", "runs/tiny", "runs/tiny"},
    {"config", "explain", "tiny.yaml"},
    {"config", "diff", "tiny.yaml", "runs/tiny"},
    {"config", "schema"},
    {"explain", "runs/tiny", "d a", "--output", "out.html"},
    {"report", "runs/tiny", "--output", "out.html"},
    {"average", "out.h5", "runs/tiny", "--last", "2"},
    {"replay", "runs/tiny", "--step", "12", "--output", "out.h5"},
    {"watch", "runs/tiny"},
};

/// A run of each kind that a command reads, and an input.
struct PrintingWorkplace : test::KindWorkplace {
  PrintingWorkplace() {
    write("tiny.yaml", test::tiny_yaml);
    write("input", "a\n");
    for (const char* config :
         {"tiny.yaml", "classes.yaml", "tags.yaml", "masked.yaml", "words.yaml"}) {
      REQUIRE(run({"train", config, "train.steps=12"}).code == 0);
    }
  }

  /// Deletes the files that a command has written, so that the next one can write them.
  void remove_outputs() const {
    for (const char* file : {"out.html", "out.h5"}) std::filesystem::remove(*this / file);
  }
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
    const PrintingWorkplace& work, const Streams& streams,
    const std::string& hint =
        "send it to a disk with free space, or to a program that reads all of it") {
  const auto before = work.contents();
  for (const Arguments& arguments : printing_commands) {
    CAPTURE(arguments);
    const Outcome refused = work.run(arguments, streams);
    CHECK(refused.code == 5);
    CHECK(contains("\n" + refused.err, "\ntapestry: error: standard output: could not be written"));
    CHECK(refused.err.ends_with("\nhint: " + hint + "\n"));
    work.remove_outputs();
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

TEST_CASE("every command that prints reports a full disk and a closed output") {
  const PrintingWorkplace work;
  const std::string input = work / "input";
  check_output_error(work, {.in = input, .out = "/dev/full"});
  check_output_error(work, {.in = input, .out = ""});
}

TEST_CASE("SIGPIPE silently ends a command whose output is closed, like other Unix tools") {
  const PrintingWorkplace work;
  const auto before = work.contents();
  const BrokenPipe pipe;
  const BrokenPipeAction action(SIG_DFL);
  for (const Arguments& arguments : printing_commands) {
    CAPTURE(arguments);
    const Outcome ended =
        work.run(arguments, Streams{.in = work / "input", .out_descriptor = pipe.descriptor()});
    CHECK(ended.code == -SIGPIPE);
    CHECK_FALSE(contains(ended.err, "error: "));
    work.remove_outputs();
  }
  CHECK(work.contents() == before);
}

TEST_CASE("a command started with SIGPIPE ignored reports that its output is closed") {
  const PrintingWorkplace work;
  const BrokenPipe pipe;
  const BrokenPipeAction action(SIG_IGN);
  check_output_error(work, {.in = work / "input", .out_descriptor = pipe.descriptor()},
                     "the reader closed the pipe early; the results are not affected");
}

TEST_CASE("a run ends with the same bytes without a reader and with all streams closed") {
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

TEST_CASE("a refusal has its exit code although its message cannot be printed") {
  const Workplace work;
  for (const char* err : {"/dev/full", ""}) {
    CHECK(work.run({"train", "nowhere.yaml"}, Streams{.err = err}).code == 2);
    CHECK(work.run({"evaluate", "nowhere"}, Streams{.err = err}).code == 4);
  }
}

TEST_CASE("a warning that cannot be printed is no error") {
  const TrainedWorkplace work;
  std::filesystem::resize_file(work / work.checkpoint(12), 1000);
  CHECK(work.run({"inspect", "runs/tiny"}, Streams{.err = "/dev/full"}).code == 0);
}

}  // namespace
}  // namespace tapestry
