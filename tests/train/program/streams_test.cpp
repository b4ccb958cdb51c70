// SPDX-License-Identifier: BSD-3-Clause
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/train/kinds.h"
#include "tests/train/terminal.h"
#include "train/checkpoint/checkpoint_file.h"

/// Tests the program with standard streams that are closed, broken or on a full disk.
namespace tapestry {
namespace {

using test::contains;
using test::Outcome;
using test::Streams;
using test::TrainedWorkplace;

/// Every command that prints its result.
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

/// A workplace with a run of each kind that the commands read, and an input file.
struct PrintingWorkplace : test::KindWorkplace {
  PrintingWorkplace() {
    write("input", "a\n");
    for (const std::string name : {"tiny", "classes", "tags", "masked", "words"}) {
      out("train " + name + ".yaml");
    }
  }

  /// Checks how each command ends, and that it leaves no file except its output.
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

/// A pipe whose ends are not inherited by other processes.
class Pipe {
 public:
  Pipe() { REQUIRE(::pipe2(ends_.data(), O_CLOEXEC) == 0); }
  ~Pipe() {
    close(0);
    close(1);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  int reading_end() const { return ends_[0]; }
  int writing_end() const { return ends_[1]; }
  void close_reading_end() { close(0); }
  void close_writing_end() { close(1); }

 private:
  void close(std::size_t end) {
    if (ends_[end] >= 0) ::close(ends_[end]);
    ends_[end] = -1;
  }

  std::array<int, 2> ends_{};
};

/// Sets the action of SIGPIPE for this process and the processes that it starts. The destructor
/// restores the previous action.
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
  Pipe pipe;
  pipe.close_reading_end();
  const auto is_error = [](const std::string& hint) {
    return [hint](const Outcome& rejected) {
      CHECK(rejected.code == 5);
      CHECK(contains(rejected.err, "tapestry: error: standard output: could not be written"));
      CHECK(rejected.err.ends_with("\nhint: " + hint + "\n"));
    };
  };
  const std::string to_a_disk =
      "write it to a disk with free space, or to a program that reads all output";
  work.check_all({.out = "/dev/full"}, is_error(to_a_disk));
  work.check_all({.out = ""}, is_error(to_a_disk));
  {
    const BrokenPipeAction action(SIG_IGN);
    work.check_all({.out_descriptor = pipe.writing_end()},
                   is_error("the reader closed the pipe early; the results are not affected"));
  }
  // SIGPIPE silently ends a command, which is usual for Unix tools.
  const BrokenPipeAction action(SIG_DFL);
  work.check_all({.out_descriptor = pipe.writing_end()}, [](const Outcome& ended) {
    CHECK(ended.code == -SIGPIPE);
    CHECK_FALSE(contains(ended.err, "error: "));
  });
}

TEST_CASE("a run ends with the same bytes if its output has no reader or all streams are closed") {
  const TrainedWorkplace work;
  const std::string expected = work.read(work.checkpoint(12));
  Pipe pipe;
  pipe.close_reading_end();
  const BrokenPipeAction action(SIG_DFL);
  for (const Streams& streams :
       {Streams{.out = "/dev/full", .err = "/dev/full"},
        Streams{.out_descriptor = pipe.writing_end()}, Streams{.in = "", .out = "", .err = ""}}) {
    REQUIRE(work.run("train tiny.yaml --fresh", streams).code == 0);
    CHECK(work.read(work.checkpoint(12)) == expected);
    const std::string log = work.read("runs/tiny/train.log");
    const std::string warning = "warning: standard output could not be written: ";
    CHECK(log.find(warning) != log.npos);
    CHECK(log.find(warning) == log.rfind(warning));
  }
  const Outcome full = work.run("train tiny.yaml --fresh", Streams{.out = "/dev/full"});
  CHECK(contains(full.err, "warning: standard output could not be written: "));
  CHECK(work.run("train tiny.yaml --fresh", Streams{.out_descriptor = pipe.writing_end()}).err ==
        "");
  // A dry run fails because its output is its only result.
  const auto before = work.contents();
  for (const char* out : {"/dev/full", ""}) {
    const Outcome dry = work.run("train tiny.yaml --fresh --dry-run", Streams{.out = out});
    CHECK(dry.code == 5);
    CHECK(contains(dry.err, "standard output: could not be written: "));
  }
  CHECK(work.contents() == before);
}

TEST_CASE("an error that cannot be printed keeps its exit code; an unprinted warning is ignored") {
  const TrainedWorkplace work;
  for (const char* err : {"/dev/full", ""}) {
    CHECK(work.run("train nowhere.yaml", Streams{.err = err}).code == 2);
    CHECK(work.run("evaluate nowhere", Streams{.err = err}).code == 4);
  }
  std::filesystem::resize_file(work / work.checkpoint(12), 1000);
  CHECK(work.run("inspect runs/tiny", Streams{.err = "/dev/full"}).code == 0);
}

// ---- Dialogues through pipes: programs that write a line and wait for the answer

using test::KindWorkplace;

/// A command whose standard input and output are pipes.
class Dialogue {
 public:
  Dialogue(const test::Workplace& work, const std::string& command,
           const std::string& err = "/dev/null")
      : process_(work.path(), command,
                 Streams{.err = err,
                         .out_descriptor = out_.writing_end(),
                         .in_descriptor = in_.reading_end()}) {
    in_.close_reading_end();
    out_.close_writing_end();
  }

  void write(const std::string& text) const {
    REQUIRE(::write(in_.writing_end(), text.data(), text.size()) ==
            static_cast<ssize_t>(text.size()));
  }

  /// The next line of output, without its line feed, or "no answer" if no line arrives within a
  /// minute.
  std::string read_line() {
    constexpr int long_time = 60'000;  // milliseconds
    while (read_.find('\n') == read_.npos) {
      pollfd polled{.fd = out_.reading_end(), .events = POLLIN, .revents = 0};
      if (::poll(&polled, 1, long_time) != 1) return "no answer";
      std::array<char, 4096> piece{};
      const ssize_t count = ::read(out_.reading_end(), piece.data(), piece.size());
      if (count <= 0) return "no answer";
      read_.append(piece.data(), static_cast<std::size_t>(count));
    }
    const std::size_t end = read_.find('\n');
    const std::string line = read_.substr(0, end);
    read_.erase(0, end + 1);
    return line;
  }

  /// Peak resident memory of the command in kB; 0 if unknown.
  std::size_t peak_memory() const {
    std::ifstream status("/proc/" + std::to_string(process_.id()) + "/status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("VmHWM:")) return std::stoul(line.substr(6));
    }
    return 0;
  }

  int end() {
    in_.close_writing_end();
    return process_.wait();
  }

 private:
  Pipe in_, out_;
  std::string read_;
  test::Process process_;
};

TEST_CASE("commands answer a line before the next line is written") {
  struct Case {
    std::string config, command;
    std::vector<std::string> lines;
  };
  const std::vector<Case> cases = {
      {"tiny", "translate runs/tiny", {"a b", "c", "b a d"}},
      {"tiny", "score runs/tiny", {"a b\tb a", "c\tc"}},
      {"classes", "classify runs/classes", {"a fine day", "a", "day"}},
      {"tags", "tag runs/tags", {"Ada spoke", "in New York"}},
      {"masked", "fill runs/masked", {"le chat _ dort", "le _"}},
  };
  const KindWorkplace work;
  for (const auto& [config, command, lines] : cases) {
    const auto& shown = command;  // clang 14 cannot capture a structured binding
    CAPTURE(shown);
    if (!work.has("runs/" + config)) work.out("train " + config + ".yaml");
    Dialogue dialogue(work, command);
    for (const std::string& line : lines) {
      const std::string expected = work.run(command, line + "\n").out;
      dialogue.write(line + "\n" + line.substr(0, 1));  // the next line is not complete
      CHECK(dialogue.read_line() + "\n" == expected);
      dialogue.write(line.substr(1) + "\n");
      CHECK(dialogue.read_line() + "\n" == expected);
    }
    CHECK(dialogue.end() == 0);
  }
  // generate continues a prompt before it reads the next prompt.
  work.out("train language.yaml");
  Dialogue dialogue(work, "generate runs/language - --tokens 0");
  for (const std::string number : {"1", "2"}) {
    dialogue.write("abc\n");
    CHECK(dialogue.read_line() == "== prompt " + number + ", sample 1, seed 1");
    CHECK(dialogue.read_line() == "abc");
  }
  CHECK(dialogue.end() == 0);
}

TEST_CASE("the memory use of translate does not depend on the number of lines") {
#if !defined(TAPESTRY_ASAN) && !defined(TAPESTRY_TSAN)  // sanitizers keep freed memory
  const TrainedWorkplace work;
  Dialogue dialogue(work, "translate runs/tiny --threads 1");
  constexpr std::size_t lines_at_once = 100;
  std::string lines;
  for (std::size_t i = 0; i < lines_at_once; ++i) lines += "a b" + std::string(400, ' ') + "\n";
  const auto translate = [&](std::size_t times) {
    for (std::size_t i = 0; i < times; ++i) {
      dialogue.write(lines);
      for (std::size_t line = 0; line < lines_at_once; ++line) {
        REQUIRE(dialogue.read_line() != "no answer");
      }
    }
    return dialogue.peak_memory();
  };
  const std::size_t few = translate(20), many = translate(200);
  CHECK(dialogue.end() == 0);
  CHECK(many < few + 1024);  // the additional lines have 8 MB
#endif
}

TEST_CASE("escape codes in classes and prompts are escaped on terminals, but not in pipes") {
  const KindWorkplace work;
  std::string labelled;
  for (int i = 0; i < 20; ++i) labelled += i % 2 == 0 ? "\x1B[31mno\tit rains\n" : "a\tfine\n";
  work.write("labels.txt", labelled);
  work.out("train classes.yaml");
  work.out("train language.yaml");
  std::string lines;
  for (int i = 0; i < 20; ++i) lines += "it rains\nfine\n";
  work.write("lines", lines);
  const std::string classify = "classify runs/classes --top 2";
  const std::string generate = "generate runs/language '\x1B[31ma' --tokens 0";
  CHECK(test::contains(work.run(classify, lines).out, "\x1B[31mno"));
  CHECK(test::contains(work.run(generate).out, "\x1B[31ma"));
  if (test::has_no_terminals()) return;
  const test::Terminal terminal;
  const Outcome classified =
      work.run(classify, Streams{.in = work.at("lines"), .out = terminal.path()});
  CHECK(classified.code == 0);
  const std::string classes = terminal.text();
  CHECK(test::contains(classes, "\\x1B[31mno"));
  CHECK_FALSE(test::contains(classes, "\x1B"));
  CHECK(work.run(generate, Streams{.out = terminal.path()}).code == 0);
  CHECK(terminal.text() == "\\x1B[31ma\r\n");
}

TEST_CASE("escape codes in checkpoints are escaped") {
  const TrainedWorkplace work;
  ArrayStore snapshot;
  for (const auto& [path, array] : read_checkpoint(work / work.checkpoint(12))) {
    if (path != "program_version" && path != "arithmetic") snapshot.put(path, array);
  }
  snapshot.put_text("program_version", "\x1B[31m");
  snapshot.put_text("arithmetic", "kernels \x1B[32m");
  write_checkpoint(work / "forged.h5", snapshot);
  const std::string shown = work.run("inspect forged.h5").out;
  test::check_words(shown, {"by version \\x1B[31m", "computed with kernels \\x1B[32m"});
  CHECK_FALSE(test::contains(shown, "\x1B"));
}

TEST_CASE("a terminal shows the number of answered lines until the command ends") {
  if (test::has_no_terminals()) return;
  const TrainedWorkplace work;
  const test::Terminal terminal;
  Dialogue dialogue(work, "translate " + work.checkpoint(12), terminal.path());
  for (int line = 0; line < 2; ++line) {
    dialogue.write("a b\n");
    CHECK(dialogue.read_line() != "no answer");
    std::this_thread::sleep_for(std::chrono::milliseconds(600));
  }
  CHECK(terminal.text().find("\r2 lines, ") != std::string::npos);
  CHECK(dialogue.end() == 0);
  CHECK(terminal.text() == "\r\x1B[K");
}

}  // namespace
}  // namespace tapestry
