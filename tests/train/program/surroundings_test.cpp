#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/train/limits.h"
#include "tests/train/program.h"

/// The program in surroundings that it did not choose: the environment, limits of the system, and a
/// working folder that was deleted.
namespace tapestry {
namespace {

using test::check_words;
using test::Outcome;
using test::TrainedWorkplace;

TEST_CASE("an unknown value of an environment variable is a warning with the known ones") {
  const test::Workplace work;
  const auto error = [&](const char* name, const char* value) {
    const char* const before = ::getenv(name);
    const std::string kept = before == nullptr ? "" : before;
    ::setenv(name, value, 1);
    const Outcome done = work.run("--version");
    before == nullptr ? ::unsetenv(name) : ::setenv(name, kept.c_str(), 1);
    CHECK(done.code == 0);
    return done.err;
  };
  const std::string warning = "tapestry: warning: environment variable TAPESTRY_";
  CHECK(error("TAPESTRY_MATMUL", "bogus") ==
        warning + "MATMUL: found bogus, expected one of tapestry openblas; using tapestry\n");
  check_words(error("TAPESTRY_KERNELS", "bogus"),
              {warning + "KERNELS: found bogus, expected one of ", "; using "});
  for (const char* value : {"tapestry", "openblas", ""}) {
    CHECK(error("TAPESTRY_MATMUL", value).empty());
  }
}

TEST_CASE("every command runs on a stack of 64 KiB") {
#ifdef TAPESTRY_ASAN
  return;  // its frames are several times as large
#endif
  const TrainedWorkplace work;
  std::vector<int> codes;
  {
    const test::ResourceLimit limit(RLIMIT_STACK, 64 << 10);
    REQUIRE(limit.is_set());
    for (const char* command :
         {"train tiny.yaml train.run_dir=other", "train --resume runs/tiny train.steps=14",
          "evaluate runs/tiny", "inspect runs/tiny", "check runs/tiny", "gradcheck tiny.yaml",
          "attention runs/tiny", "translate runs/tiny --beam-size 4"}) {
      codes.push_back(work.run(command, "a b c\n").code);
    }
  }
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
  check_words(resumed.err, {"runs/tiny/checkpoints: could not list the checkpoints: Too many open",
                            "ulimit -n"});
  CHECK(work.contents() == before);
  CHECK(run("evaluate runs/tiny").code == 0);
  work.out("train --resume runs/tiny train.steps=13");
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
  work.write("input", "a b\n");
  const DeletedFolder here;
  const auto code = [&](const std::string& command) {
    return test::Process(
               ".", command,
               {.in = work.at("input"), .out = work.stream("out"), .err = work.stream("err")})
        .wait();
  };
  const std::string tiny = work.at("tiny.yaml"), run = work.at("runs/tiny"), next = work.at("new");
  for (const std::string& command : {"train " + tiny + " train.steps=2 train.run_dir=" + next,
                                     "train train.steps=4 --resume " + next,
                                     "train train.steps=13 --resume " + run + "/config.yaml",
                                     "evaluate " + run, "evaluate " + run + " decoding.beam_size=2",
                                     "translate " + run, "inspect " + run, "attention " + tiny}) {
    CAPTURE(command);
    CHECK(code(command) == 0);
    CHECK(test::read_text(work.stream("err")).empty());
  }
  CHECK(code("attention " + tiny + " data.train_text=a.txt") == 2);
  check_words(test::read_text(work.stream("err")),
              {"found a relative path, and the working folder does not exist",
               "hint: change to an existing folder with cd, or give absolute paths"});
}

}  // namespace
}  // namespace tapestry
