#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "autograd/kernels/matmul.h"
#include "tests/support/contains.h"
#include "tests/train/program.h"

/// The program where address space is short: it does its work, or ends with the exit code 8 and
/// says what to do; it neither crashes nor hangs, and loses nothing.
namespace tapestry {
namespace {

using test::contains;
using test::Outcome;
using test::TrainedWorkplace;
using test::Workplace;

/// The shadow of the address sanitizer takes all address space, and OpenBLAS more than is tried
/// here before the program begins.
bool limits_can_be_tried() {
#if defined(TAPESTRY_ASAN) || defined(TAPESTRY_TSAN)
  return false;
#else
  return matmul_in_use() != Matmul::openblas;
#endif
}

/// Runs the program with so much address space, without threads of OpenBLAS; code 124 if it hangs.
/// `setting` is one more variable of its environment.
Outcome run_in_kilobytes(std::uint64_t kilobytes, const Workplace& work,
                         const std::string& arguments, const char* setting = "") {
  const auto out = work.stream("limited-out"), err = work.stream("limited-err");
  const int status =
      std::system(fmt::format("cd '{}' && ulimit -c 0 && ulimit -v {} && exec timeout 60 env "
                              "OPENBLAS_NUM_THREADS=1 {} '{}' {} >'{}' "
                              "2>'{}' </dev/null",
                              work.path().string(), kilobytes, setting, test::program_path(),
                              arguments, out.string(), err.string())
                      .c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), test::read_text(out),
          test::read_text(err)};
}

Outcome run_in(std::uint64_t megabytes, const Workplace& work, const std::string& arguments) {
  return run_in_kilobytes(1024 * megabytes, work, arguments);
}

/// While it is alive, threads of the processes that this one starts have stacks of so many bytes.
class ThreadStacks {
 public:
  explicit ThreadStacks(rlim_t bytes) {
    ::getrlimit(RLIMIT_STACK, &before_);
    const rlimit large{bytes, before_.rlim_max};
    is_set_ = ::setrlimit(RLIMIT_STACK, &large) == 0;
  }
  ThreadStacks(const ThreadStacks&) = delete;
  ThreadStacks& operator=(const ThreadStacks&) = delete;
  ~ThreadStacks() { ::setrlimit(RLIMIT_STACK, &before_); }

  /// False if the system allows only smaller ones.
  bool is_set() const { return is_set_; }

 private:
  rlimit before_{};
  bool is_set_ = false;
};

/// Whether the program came as far as its own code: the loader and the libraries need some memory
/// first. Where they find none, these are the first words, or the loader itself crashes, as it then
/// does too where it is told to load alone.
bool was_loaded(const Outcome& outcome, std::uint64_t kilobytes, const Workplace& work) {
  if (outcome.code == -SIGSEGV && outcome.err.empty()) {
    return run_in_kilobytes(kilobytes, work, "", "LD_TRACE_LOADED_OBJECTS=1").code == 0;
  }
  if (outcome.code == 127) return false;  // of the loader
  for (const char* words : {"error while loading shared libraries", "Fatal glibc error",
                            "terminate called without an active exception",
                            "Memory allocation failed" /* libgfortran, which OpenBLAS needs */}) {
    if (contains(outcome.err, words)) return false;
  }
  return true;
}

void check_lack_of_memory(const Outcome& outcome) {
  CHECK(outcome.code == 8);
  CHECK(outcome.err.find("tapestry: error: the system has no more memory") != std::string::npos);
  CHECK(outcome.err.find("\nhint: ") != std::string::npos);
}

/// Limits from too little for the loader to enough.
const std::vector<std::uint64_t> limits = {25, 40, 60, 70, 75,  78,  80,  82,  84,  86, 88,
                                           90, 92, 95, 98, 102, 110, 120, 140, 200, 500};

/// Runs a command that changes nothing under each limit. Returns how often it lacked memory.
int check_reader(const Workplace& work, const std::string& arguments) {
  const auto before = work.contents();
  int lacked = 0;
  Outcome outcome{};
  for (const std::uint64_t limit : limits) {
    CAPTURE(limit);
    CAPTURE(arguments);
    outcome = run_in(limit, work, arguments);
    if (!was_loaded(outcome, 1024 * limit, work)) continue;
    if (outcome.code == 0) continue;
    ++lacked;
    check_lack_of_memory(outcome);
  }
  CHECK(outcome.code == 0);
  CHECK(work.contents() == before);
  return lacked;
}

TEST_CASE("training in any address space succeeds or ends with exit code 8, and can be resumed") {
  if (!limits_can_be_tried()) return;
  const TrainedWorkplace reference;
  const std::string last = reference.checkpoint(12);
  int lacked = 0;
  for (const int threads : {1, 8}) {
    for (const std::uint64_t limit : limits) {
      CAPTURE(threads);
      CAPTURE(limit);
      Workplace work;
      work.write("tiny.yaml", test::tiny_yaml);
      const Outcome outcome =
          run_in(limit, work, fmt::format("train tiny.yaml train.threads={}", threads));
      if (!was_loaded(outcome, 1024 * limit, work)) continue;
      if (outcome.code != 0) {
        ++lacked;
        check_lack_of_memory(outcome);
        const bool saved = std::filesystem::exists(work / "runs/tiny/checkpoints/step-00000005.h5");
        CHECK(work.run({"train", saved ? "--resume" : "tiny.yaml", saved ? "runs/tiny" : "--fresh"})
                  .code == 0);
      }
      CHECK(test::read_text(work / last) == test::read_text(reference / last));
    }
  }
  CHECK(lacked > 0);
}

TEST_CASE("threads that the system refuses are reported, and the others do their work") {
  if (!limits_can_be_tried()) return;
  const TrainedWorkplace reference;
  const Workplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  const ThreadStacks stacks(rlim_t{2} << 30);  // larger than the address space
  if (!stacks.is_set()) return;
  const Outcome outcome = run_in(1000, work, "train tiny.yaml train.threads=8");
  CHECK(outcome.code == 0);
  CHECK(contains(outcome.out,
                 "\nwarning: threads: 1 instead of 8, the system gives no more (ulimit -u, "
                 "ulimit -v)\n"));
  CHECK(contains(outcome.out,
                 "\nwarning: training waits while checkpoints are written, since the system gives "
                 "no thread for it (ulimit -u, ulimit -v)\n"));
  const std::string last = reference.checkpoint(12);
  CHECK(test::read_text(work / last) == test::read_text(reference / last));
}

TEST_CASE("a run on 1,024 threads has the bits of one") {
  if (!limits_can_be_tried()) return;
  const TrainedWorkplace reference;
  const Workplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  const Outcome outcome = work.run({"train", "tiny.yaml", "train.threads=1024"});
  CHECK(outcome.code == 0);
  CHECK(contains(outcome.out, "; threads: 1024; "));
  CHECK_FALSE(contains(outcome.out, "the system gives no more"));
  const std::string last = reference.checkpoint(12);
  CHECK(test::read_text(work / last) == test::read_text(reference / last));
}

TEST_CASE("lack of memory shortly after loading the program ends with exit code 8") {
  if (!limits_can_be_tried()) return;
  const TrainedWorkplace work;
  Outcome outcome{};
  for (std::uint64_t limit = 25 << 10; limit < 140 << 10; limit += 100) {
    CAPTURE(limit);
    outcome = run_in_kilobytes(limit, work, "inspect runs/tiny");
    if (outcome.code == 0) break;
    if (was_loaded(outcome, limit, work)) check_lack_of_memory(outcome);
  }
  CHECK(outcome.code == 0);
}

TEST_CASE("commands that read a run need little memory, and report if there is less") {
  if (!limits_can_be_tried()) return;
  const TrainedWorkplace work;
  for (const char* command : {"inspect", "translate", "evaluate", "check"}) {
    check_reader(work, fmt::format("{} runs/tiny", command));
  }
}

TEST_CASE("a batch that does not fit into memory is reported with the request and a remedy") {
  if (!limits_can_be_tried()) return;
  Workplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  const Outcome outcome = run_in(200, work,
                                 "train tiny.yaml data.train_size=20000 data.num_symbols=20 "
                                 "data.max_length=7 train.batch_size=20000 model.d_model=256");
  check_lack_of_memory(outcome);
  CHECK(outcome.err.find(" MB more were asked for, ") != std::string::npos);
  CHECK(outcome.err.find("hint: try a smaller train.batch_size with a larger train.accumulate") !=
        std::string::npos);
}

TEST_CASE("commands that examine a model say what to reduce if they lack memory") {
  if (!limits_can_be_tried()) return;
  Workplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  const auto hint = [&](const std::string& arguments) {
    const Outcome outcome = run_in(140, work, arguments);
    check_lack_of_memory(outcome);
    return outcome.err.substr(outcome.err.find("\nhint: ") + 7);
  };
  const std::string wide = " tiny.yaml model.d_model=256 model.d_ff=7000";
  for (const char* command : {"check", "gradcheck"}) {
    CHECK(hint(command + wide) ==
          "try a smaller model, such as model.d_model=32, or give it more memory (see `ulimit "
          "-v`)\n");
  }
  CHECK(hint("attention" + wide) == "give it a shorter text or example\n");
}

TEST_CASE("a model larger than any memory is refused before anything is written") {
  Workplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  const auto before = work.contents();
  for (const char* command : {"train", "check", "gradcheck"}) {
    CAPTURE(command);
    const Outcome outcome =
        work.run({command, "tiny.yaml", "model.d_model=65536", "model.num_encoder_layers=1000"});
    CHECK(outcome.code == 8);
    CHECK(outcome.err.starts_with("tapestry: error: memory: 17,"));
    CHECK(outcome.err.find("\nhint: try a smaller model: model.d_model") != std::string::npos);
    CHECK(outcome.out.empty());
  }
  CHECK(work.contents() == before);
}

TEST_CASE("the memory needed is printed before the first step") {
  Workplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  const Outcome outcome = work.run({"train", "tiny.yaml"});
  const auto line = outcome.out.find("memory: about ");
  REQUIRE(line != std::string::npos);
  CHECK(line < outcome.out.find("step 4"));
  CHECK(outcome.out.find("the largest step of 4 x 5 x 5 tokens", line) != std::string::npos);
  CHECK(outcome.out.find(" free", line) != std::string::npos);
  CHECK(test::read_text(work / "runs/tiny/train.log").find("memory: about ") != std::string::npos);
}

}  // namespace
}  // namespace tapestry
