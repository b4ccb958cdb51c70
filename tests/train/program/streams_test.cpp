#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/train/kinds.h"

/// What the program does where a standard stream is closed, broken or on a full disk.
namespace tapestry {
namespace {

using test::contains;
using test::Outcome;
using test::Streams;
using test::TrainedWorkplace;

/// Every command that is there for what it prints.
const std::vector<std::string> printing_commands = {"--help",
                                                    "--version",
                                                    "train --help",
                                                    "completion bash",
                                                    "evaluate runs/tiny",
                                                    "translate runs/tiny",
                                                    "inspect runs/tiny",
                                                    "bleu tiny.yaml --reference tiny.yaml",
                                                    "compare tiny.yaml tiny.yaml tiny.yaml",
                                                    "gradcheck tiny.yaml --coordinates 2",
                                                    "gradcheck tiny.yaml --coordinates 2 --json",
                                                    "check tiny.yaml",
                                                    "plan tiny.yaml --seconds 0.01",
                                                    "plan tiny.yaml --seconds 0.01 --json",
                                                    "classify runs/classes",
                                                    "tag runs/tags",
                                                    "fill runs/masked",
                                                    "generate runs/words le --tokens 2",
                                                    "attention runs/tiny",
                                                    "score runs/tiny input input",
                                                    "errors runs/tiny",
                                                    "runs",
                                                    "diff runs/tiny runs/tiny",
                                                    "config explain tiny.yaml",
                                                    "config diff tiny.yaml runs/tiny",
                                                    "config schema",
                                                    "explain runs/tiny 'd a' --output out.html",
                                                    "report runs/tiny --output out.html",
                                                    "average out.h5 runs/tiny --last 2",
                                                    "replay runs/tiny --step 12 --output out.h5",
                                                    "watch runs/tiny"};

/// A run of each kind that a command reads, and an input.
struct PrintingWorkplace : test::KindWorkplace {
  PrintingWorkplace() {
    write("input", "a\n");
    for (const std::string name : {"tiny", "classes", "tags", "masked", "words"}) {
      out("train " + name + ".yaml");
    }
  }

  /// Checks how each command ends, and that it leaves no file but its output.
  void check_all(Streams streams, const auto& check) const {
    streams.in = at("input");
    const auto before = contents();
    for (const std::string& command : printing_commands) {
      CAPTURE(command);
      check(run(command, streams));
      for (const char* file : {"out.html", "out.h5"}) std::filesystem::remove(*this / file);
    }
    CHECK(contents() == before);
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

TEST_CASE("every command that prints reports a full disk, a closed output and a closed pipe") {
  const PrintingWorkplace work;
  const BrokenPipe pipe;
  const auto is_error = [](const std::string& hint) {
    return [hint](const Outcome& rejected) {
      CHECK(rejected.code == 5);
      CHECK(contains(rejected.err, "tapestry: error: standard output: could not be written"));
      CHECK(rejected.err.ends_with("\nhint: " + hint + "\n"));
    };
  };
  const std::string to_a_disk =
      "send it to a disk with free space, or to a program that reads all of it";
  work.check_all({.out = "/dev/full"}, is_error(to_a_disk));
  work.check_all({.out = ""}, is_error(to_a_disk));
  {
    const BrokenPipeAction action(SIG_IGN);
    work.check_all({.out_descriptor = pipe.descriptor()},
                   is_error("the reader closed the pipe early; the results are not affected"));
  }
  // SIGPIPE silently ends a command, like other Unix tools.
  const BrokenPipeAction action(SIG_DFL);
  work.check_all({.out_descriptor = pipe.descriptor()}, [](const Outcome& ended) {
    CHECK(ended.code == -SIGPIPE);
    CHECK_FALSE(contains(ended.err, "error: "));
  });
}

TEST_CASE("a run ends with the same bytes without a reader and with all streams closed") {
  const TrainedWorkplace work;
  const std::string expected = work.read(work.checkpoint(12));
  const BrokenPipe pipe;
  const BrokenPipeAction action(SIG_DFL);
  for (const Streams& streams :
       {Streams{.out = "/dev/full", .err = "/dev/full"},
        Streams{.out_descriptor = pipe.descriptor()}, Streams{.in = "", .out = "", .err = ""}}) {
    REQUIRE(work.run("train tiny.yaml --fresh", streams).code == 0);
    CHECK(work.read(work.checkpoint(12)) == expected);
    const std::string log = work.read("runs/tiny/train.log");
    const std::string warning = "warning: standard output could not be written: ";
    CHECK(log.find(warning) != log.npos);
    CHECK(log.find(warning) == log.rfind(warning));
  }
  // A dry run is there for what it prints.
  const auto before = work.contents();
  for (const char* out : {"/dev/full", ""}) {
    const Outcome dry = work.run("train tiny.yaml --fresh --dry-run", Streams{.out = out});
    CHECK(dry.code == 5);
    CHECK(contains(dry.err, "standard output: could not be written: "));
  }
  CHECK(work.contents() == before);
}

TEST_CASE("an error has its exit code although it cannot be printed, and a warning is no error") {
  const TrainedWorkplace work;
  for (const char* err : {"/dev/full", ""}) {
    CHECK(work.run("train nowhere.yaml", Streams{.err = err}).code == 2);
    CHECK(work.run("evaluate nowhere", Streams{.err = err}).code == 4);
  }
  std::filesystem::resize_file(work / work.checkpoint(12), 1000);
  CHECK(work.run("inspect runs/tiny", Streams{.err = "/dev/full"}).code == 0);
}

}  // namespace
}  // namespace tapestry
