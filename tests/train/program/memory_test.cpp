#include <fmt/format.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "autograd/kernels/matmul.h"
#include "tests/train/limits.h"
#include "tests/train/program.h"

/// The program where address space is short: it does its work, or ends with the exit code 8 and
/// says what to do; it neither crashes nor hangs, and loses nothing.
namespace tapestry {
namespace {

using test::contains;
using test::Outcome;
using test::TinyWorkplace;
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
                              "OPENBLAS_NUM_THREADS=1 {} '{}' {} >'{}' 2>'{}' </dev/null",
                              work.path().string(), kilobytes, setting, test::program_path(),
                              arguments, out.string(), err.string())
                      .c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), test::read_text(out),
          test::read_text(err)};
}

Outcome run_in(std::uint64_t megabytes, const Workplace& work, const std::string& arguments) {
  return run_in_kilobytes(1024 * megabytes, work, arguments);
}

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
                            "Memory allocation failed" /* libgfortran, which OpenBLAS needs */,
                            "Error in GnuTLS initialization" /* which libhdf5 needs */}) {
    if (contains(outcome.err, words)) return false;
  }
  return true;
}

void check_lack_of_memory(const Outcome& outcome) {
  CHECK(outcome.code == 8);
  test::check_words(outcome.err, {"tapestry: error: the system has no more memory", "\nhint: "});
}

/// Limits from too little for the loader to enough.
const std::vector<std::uint64_t> limits = {40, 70, 78, 82,  84,  86,  88, 90,
                                           92, 95, 98, 102, 110, 140, 500};

TEST_CASE("training in any address space succeeds or ends with exit code 8, and can be resumed") {
  if (!limits_can_be_tried()) return;
  const TrainedWorkplace reference;
  const std::string last = reference.checkpoint(12);
  int lacked = 0;
  for (const std::uint64_t limit : limits) {
    CAPTURE(limit);
    const TinyWorkplace work;
    const int threads = limit % 4 == 0 ? 8 : 1;
    const Outcome outcome =
        run_in(limit, work, fmt::format("train tiny.yaml train.threads={}", threads));
    if (!was_loaded(outcome, 1024 * limit, work)) continue;
    if (outcome.code != 0) {
      ++lacked;
      check_lack_of_memory(outcome);
      work.out(work.has(work.checkpoint(5)) ? "train --resume runs/tiny"
                                            : "train tiny.yaml --fresh");
    }
    CHECK(work.read(last) == reference.read(last));
  }
  CHECK(lacked > 0);
}

TEST_CASE("commands that read a run need little memory, and report if there is less") {
  if (!limits_can_be_tried()) return;
  const TrainedWorkplace work;
  const auto before = work.contents();
  for (const std::string command : {"inspect", "translate", "evaluate", "check"}) {
    CAPTURE(command);
    Outcome outcome{};
    for (const std::uint64_t limit : limits) {
      CAPTURE(limit);
      outcome = run_in(limit, work, command + " runs/tiny");
      if (outcome.code == 0 || !was_loaded(outcome, 1024 * limit, work)) continue;
      check_lack_of_memory(outcome);
    }
    CHECK(outcome.code == 0);
  }
  CHECK(work.contents() == before);
}

TEST_CASE("lack of memory shortly after loading the program ends with exit code 8") {
  if (!limits_can_be_tried()) return;
  const TrainedWorkplace work;
  const auto code = [&](std::uint64_t limit) {
    return run_in_kilobytes(limit, work, "inspect runs/tiny").code;
  };
  std::uint64_t enough = 140 << 10, little = 25 << 10;  // between which it begins to succeed
  while (enough - little > 200) {
    const std::uint64_t middle = (enough + little) / 2;
    (code(middle) == 0 ? enough : little) = middle;
  }
  for (std::uint64_t limit = enough - (6 << 10); limit < enough; limit += 100) {
    CAPTURE(limit);
    const Outcome outcome = run_in_kilobytes(limit, work, "inspect runs/tiny");
    if (outcome.code != 0 && was_loaded(outcome, limit, work)) check_lack_of_memory(outcome);
  }
}

TEST_CASE("threads that the system refuses are reported, and the others do their work") {
  if (!limits_can_be_tried()) return;
  const TrainedWorkplace reference;
  const std::string last = reference.checkpoint(12);
  const TinyWorkplace work;
  {
    const test::ResourceLimit stacks(RLIMIT_STACK, rlim_t{2} << 30);  // above the address space
    if (!stacks.is_set()) return;
    const Outcome outcome = run_in(1000, work, "train tiny.yaml train.threads=8");
    CHECK(outcome.code == 0);
    test::check_words(outcome.out,
                      {"\nwarning: threads: 1 instead of 8, the system gives no more (ulimit -u",
                       "\nwarning: training waits while checkpoints are written, since the system "
                       "gives no thread for it"});
  }
  CHECK(work.read(last) == reference.read(last));
  const std::string many = work.out("train tiny.yaml --fresh train.threads=1024");
  CHECK(contains(many, "; threads: 1024; "));
  CHECK_FALSE(contains(many, "the system gives no more"));
  CHECK(work.read(last) == reference.read(last));
}

TEST_CASE("commands that lack memory for a batch or a model say what to reduce") {
  if (!limits_can_be_tried()) return;
  const TinyWorkplace work;
  const Outcome batch = run_in(200, work,
                               "train tiny.yaml data.train_size=20000 data.num_symbols=20 "
                               "data.max_length=7 train.batch_size=20000 model.d_model=256");
  check_lack_of_memory(batch);
  test::check_words(batch.err, {" MB more were asked for, ",
                                "hint: try a smaller train.batch_size with a larger"});
  const auto check = [&](const std::string& command, const std::string& hint) {
    const Outcome outcome =
        run_in(140, work, command + " tiny.yaml model.d_model=256 model.d_ff=7000");
    check_lack_of_memory(outcome);
    test::check_words(outcome.err, {"\nhint: " + hint});
  };
  check("check", "try a smaller model, such as model.d_model=32");
  check("gradcheck", "try a smaller model, such as model.d_model=32");
  check("attention", "give it a shorter text or example\n");
}

TEST_CASE("a model larger than any memory is rejected; the memory needed is printed before") {
  const TinyWorkplace work;
  for (const std::string command : {"train", "check", "gradcheck"}) {
    check_rejected(work, command + " tiny.yaml model.d_model=65536 model.num_encoder_layers=1000",
                   8, {"memory: 17,", "try a smaller model: model.d_model"});
  }
  const std::string out = work.out("train tiny.yaml");
  const auto line = out.find("memory: about ");
  REQUIRE(line != std::string::npos);
  CHECK(line < out.find("step 4"));
  test::check_words(out.substr(line), {"the largest step of 4 x 5 x 5 tokens", " free"});
  CHECK(contains(work.read("runs/tiny/train.log"), "memory: about "));
}

}  // namespace
}  // namespace tapestry
