#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/contains.h"
#include "tests/train/refusal.h"

/// The program in surroundings that it did not choose: the environment, and a working folder that
/// was deleted.
namespace tapestry {
namespace {

using test::Arguments;
using test::contains;
using test::Outcome;
using test::Process;
using test::TrainedWorkplace;
using test::Workplace;

/// Sets an environment variable while it is alive.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    const char* const before = ::getenv(name);
    was_set_ = before != nullptr;
    if (was_set_) before_ = before;
    ::setenv(name, value, 1);
  }
  ~Variable() { was_set_ ? ::setenv(name_, before_.c_str(), 1) : ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  bool was_set_ = false;
  std::string before_;
};

TEST_CASE("an unknown value of an environment variable is a warning with the known ones") {
  const Workplace work;
  {
    const Variable variable("TAPESTRY_MATMUL", "bogus");
    const Outcome done = work.run({"--version"});
    CHECK(done.code == 0);
    CHECK(done.err ==
          "tapestry: warning: environment variable TAPESTRY_MATMUL: found bogus, expected one of "
          "tapestry openblas; using tapestry\n");
  }
  {
    const Variable variable("TAPESTRY_KERNELS", "bogus");
    const Outcome done = work.run({"--version"});
    CHECK(done.code == 0);
    CHECK(done.err.starts_with(
        "tapestry: warning: environment variable TAPESTRY_KERNELS: found bogus, expected one of "));
    CHECK(contains(done.err, "; using "));
  }
  for (const char* value : {"tapestry", "openblas", ""}) {
    const Variable variable("TAPESTRY_MATMUL", value);
    CHECK(work.run({"--version"}).err.empty());
  }
}

/// The stack of this process, and of those that it starts, is 64 KiB while it is alive.
class SmallStack {
 public:
  SmallStack() {
    ::getrlimit(RLIMIT_STACK, &before_);
    const rlimit small{.rlim_cur = 64 << 10, .rlim_max = before_.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_STACK, &small) == 0);
  }
  ~SmallStack() { ::setrlimit(RLIMIT_STACK, &before_); }
  SmallStack(const SmallStack&) = delete;
  SmallStack& operator=(const SmallStack&) = delete;

 private:
  rlimit before_{};
};

TEST_CASE("every command runs on a stack of 64 KiB") {
#ifdef TAPESTRY_ASAN
  return;  // its frames are several times as large
#endif
  const TrainedWorkplace work;
  const auto codes = [&] {
    const SmallStack limit;
    std::vector<int> found;
    for (const Arguments& arguments :
         {Arguments{"train", "tiny.yaml", "train.run_dir=other"},
          Arguments{"train", "--resume", "runs/tiny", "train.steps=14"},
          Arguments{"evaluate", "runs/tiny"}, Arguments{"inspect", "runs/tiny"},
          Arguments{"check", "runs/tiny"}, Arguments{"gradcheck", "tiny.yaml"},
          Arguments{"attention", "runs/tiny"}}) {
      found.push_back(work.run(arguments).code);
    }
    found.push_back(work.run({"translate", "runs/tiny", "--beam-size", "4"}, "a b c\n").code);
    return found;
  }();
  CHECK(codes == std::vector<int>(8, 0));
}

TEST_CASE("a limit of open files that is too low is named as the reason") {
#ifdef TAPESTRY_ASAN
  return;  // which opens descriptors of its own to look at an exception
#endif
  const TrainedWorkplace work;
  // The program can open one file at a time, as the loader does with the libraries. Descriptors
  // that whoever runs the tests has left open are closed.
  const auto run = [&](const std::string& arguments) {
    const auto err = work.stream("limited");
    const int status = std::system(
        fmt::format(
            "(exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; cd '{}' && ulimit -n 4 && exec '{}' {}) "
            ">/dev/null 2>'{}'",
            work.path().string(), test::program_path(), arguments, err.string())
            .c_str());
    return Outcome{WEXITSTATUS(status), "", test::read_text(err)};
  };
  const auto before = work.contents();
  const Outcome resumed = run("train --resume runs/tiny train.steps=13");
  CHECK(resumed.code == 4);
  CHECK(resumed.err ==
        "tapestry: error: runs/tiny/checkpoints: could not list the checkpoints: Too many open "
        "files\nhint: raise the limit on open files (ulimit -n)\n");
  CHECK(work.contents() == before);
  CHECK(run("evaluate runs/tiny").code == 0);
  CHECK(work.run({"train", "--resume", "runs/tiny", "train.steps=13"}).code == 0);
}

/// The working folder of this process is one that has been deleted, while it is alive.
class DeletedFolder {
 public:
  DeletedFolder() : before_(::open(".", O_PATH | O_DIRECTORY | O_CLOEXEC)) {
    REQUIRE(before_ >= 0);
    const test::TemporaryFolder folder;
    std::filesystem::current_path(folder.path());
  }
  ~DeletedFolder() {
    (void)!::fchdir(before_);
    ::close(before_);
  }
  DeletedFolder(const DeletedFolder&) = delete;
  DeletedFolder& operator=(const DeletedFolder&) = delete;

 private:
  int before_;
};

TEST_CASE("absolute paths work if the working folder was deleted") {
  const TrainedWorkplace work;
  const auto at = [&](const std::string& name) { return (work / name).string(); };
  work.write("input", "a b\n");
  const DeletedFolder here;
  const auto code = [&](const Arguments& arguments) {
    return Process(".", arguments,
                   {.in = at("input"), .out = work.stream("out"), .err = work.stream("err")})
        .wait();
  };
  for (const Arguments& arguments :
       {Arguments{"train", at("tiny.yaml"), "train.run_dir=" + at("new"), "train.steps=2"},
        Arguments{"train", "--resume", at("new"), "train.steps=4"},
        Arguments{"train", "--resume", at("runs/tiny/config.yaml"), "train.steps=13"},
        Arguments{"evaluate", at("runs/tiny")},
        Arguments{"evaluate", at("runs/tiny"), "decoding.beam_size=2"},
        Arguments{"translate", at("runs/tiny")}, Arguments{"inspect", at("runs/tiny")},
        Arguments{"attention", at("tiny.yaml")}}) {
    CAPTURE(arguments);
    CHECK(code(arguments) == 0);
    CHECK(test::read_text(work.stream("err")).empty());
  }
  CHECK(code({"attention", at("tiny.yaml"), "data.train_text=a.txt"}) == 2);
  CHECK(test::read_text(work.stream("err"))
            .ends_with("found a relative path, and the working folder does not exist\n"
                       "hint: change to an existing folder with cd, or give absolute paths\n"));
}

}  // namespace
}  // namespace tapestry
