// SPDX-License-Identifier: BSD-3-Clause
#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "autograd/kernels/matmul.h"
#include "tests/support/hdf5_files.h"
#include "tests/train/limits.h"
#include "tests/train/program.h"

/// Tests the program under limits on memory, stack and open files. With little address space, the
/// program succeeds or ends with exit code 8 and a hint. It neither crashes nor hangs, and loses no
/// data.
namespace tapestry {
namespace {

using test::contains;
using test::Outcome;
using test::TinyWorkplace;
using test::TrainedWorkplace;
using test::Workplace;

/// Whether run_in() can limit the address space. Sanitizers and OpenBLAS reserve more than
/// these limits before the program begins.
bool limits_can_be_tried() {
#if defined(TAPESTRY_ASAN) || defined(TAPESTRY_TSAN)
  return false;
#else
  return matmul_in_use() != Matmul::openblas;
#endif
}

/// Runs the program with a limited address space and one OpenBLAS thread; code 124 if it hangs.
/// `setting` is added to its environment.
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

/// Whether the program reached its own code. If the loader and the libraries have too little
/// memory, they print one of the messages below, or the loader crashes; in that case it also
/// crashes when it only lists the libraries.
bool was_loaded(const Outcome& outcome, std::uint64_t kilobytes, const Workplace& work) {
  if (outcome.code == -SIGSEGV && outcome.err.empty()) {
    return run_in_kilobytes(kilobytes, work, "", "LD_TRACE_LOADED_OBJECTS=1").code == 0;
  }
  if (outcome.code == 127) return false;  // exit code of the loader
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

/// Limits in megabytes, from too low for the loader to sufficient for the program.
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

TEST_CASE("reading data in any address space succeeds or ends with exit code 8") {
  if (!limits_can_be_tried()) return;
  const test::TextWorkplace work;
  std::string text, other;
  for (std::size_t i = 0; i < 20'000; ++i) {
    text += fmt::format("{} {}\n", i * 7919 % 99991, i * 104729 % 1299709);
    other += "a\n";
  }
  work.write("many.a", text);
  work.write("many.b", other);
  const std::string train =
      "train text.yaml --dry-run train.threads=1 data.on_bad_line=skip data.train_source=many.a "
      "data.train_target=many.b data.shared_vocabulary=true model.max_length=64 ";
  for (const std::string options : {"data.cache=always",
                                    "data.subwords=unigram "
                                    "data.vocabulary_size=300"}) {
    CAPTURE(options);
    int lacked = 0, succeeded = 0;
    for (const std::uint64_t limit : {75, 105, 135, 390}) {
      CAPTURE(limit);
      const Outcome outcome = run_in(limit, work, train + options);
      if (!was_loaded(outcome, 1024 * limit, work)) continue;
      if (outcome.code != 0) check_lack_of_memory(outcome);
      outcome.code == 0 ? ++succeeded : ++lacked;
    }
    CHECK(lacked > 0);
    CHECK(succeeded > 0);
  }
}

TEST_CASE("compressed images beyond the address space are rejected with both sizes") {
  if (!limits_can_be_tried()) return;
  constexpr hsize_t count = 60'000, side = 28;
  const Workplace work;
  {
    const auto bytes = hdf5::file_with([&](hid_t file) {
      const hdf5::PropertyList options = hdf5::dataset_options();
      const std::vector<hsize_t> chunk{count, side, side};
      REQUIRE(H5Pset_chunk(options.get(), 3, chunk.data()) >= 0);
      REQUIRE(H5Pset_deflate(options.get(), 1) >= 0);
      const hdf5::Dataset images = hdf5::create(file, "images", H5T_STD_U8LE, chunk, options);
      const std::vector<std::uint8_t> pixels(count * side * side, 7);
      REQUIRE(H5Dwrite(images.get(), H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT,
                       pixels.data()) >= 0);
      const hdf5::Dataset labels = hdf5::create(file, "labels", H5T_STD_I64LE, {count});
      std::vector<std::int64_t> classes(count);
      for (std::size_t i = 0; i < count; ++i) classes[i] = static_cast<std::int64_t>(i % 2);
      REQUIRE(H5Dwrite(labels.get(), H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT,
                       classes.data()) >= 0);
    });
    CHECK(bytes.size() < (1 << 20));
    work.write("images.h5", {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  work.write("images.yaml",
             "data: {task: images, train_images: images.h5, image_height: 28, image_width: 28}\n"
             "model: {kind: vision_transformer, d_model: 8, num_heads: 1, d_ff: 8, patch_size: 14, "
             "max_length: 5}\n");
  int named = 0;
  for (const std::uint64_t limit : {120, 160, 200, 240}) {
    CAPTURE(limit);
    const Outcome outcome = run_in(limit, work, "train images.yaml --dry-run train.threads=1");
    CHECK(outcome.code == 8);
    named += contains(outcome.err, "images.h5: found 60000 images, which need 0.1") ||
                     contains(outcome.err, "images.h5: found 60000 images, which need 0.2")
                 ? 1
                 : 0;
    test::check_words(outcome.err, {"error: ", "\nhint: "});
  }
  CHECK(named > 2);
  CHECK(run_in(2000, work, "train images.yaml --dry-run train.threads=1").code == 0);
}

TEST_CASE("commands that read a run need little memory, and report an error if they have less") {
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
  auto after = work.contents();
  CHECK(after.erase("runs/tiny/evaluation.json") == 1);  // the scores of evaluate
  CHECK(after == before);
}

TEST_CASE("running out of memory soon after the program is loaded ends with exit code 8") {
  if (!limits_can_be_tried()) return;
  const TrainedWorkplace work;
  const auto code = [&](std::uint64_t limit) {
    return run_in_kilobytes(limit, work, "inspect runs/tiny").code;
  };
  std::uint64_t enough = 140 << 10,
                little = 25 << 10;  // the lowest limit for inspect is between `little` and `enough`
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

TEST_CASE("the program ends even if threads of OpenBLAS lack address space") {
  if (!limits_can_be_tried()) return;
  const TrainedWorkplace work;
  const char* const threads = "OPENBLAS_NUM_THREADS=4";
  const std::string large = "train tiny.yaml --fresh model.d_model=1024 model.d_ff=16384";
  for (const std::uint64_t limit : {160, 200, 240}) {
    CAPTURE(limit);
    const std::uint64_t kilobytes = 1024 * limit;
    CHECK(run_in_kilobytes(kilobytes, work, "inspect runs/tiny", threads).code == 0);
    CHECK(run_in_kilobytes(kilobytes, work, large, threads).code == 8);
  }
}

TEST_CASE("training reports threads that cannot be started and continues with the others") {
  if (!limits_can_be_tried()) return;
  const TrainedWorkplace reference;
  const std::string last = reference.checkpoint(12);
  const TinyWorkplace work;
  {
    const test::ResourceLimit stacks(RLIMIT_STACK, rlim_t{2} << 30);  // more than the address space
    if (!stacks.is_set()) return;
    const Outcome outcome = run_in(1000, work, "train tiny.yaml train.threads=8");
    CHECK(outcome.code == 0);
    test::check_words(
        outcome.out,
        {"\nwarning: threads: 1 instead of 8, no more threads could be started (ulimit -u",
         "\nwarning: training waits while checkpoints are written, since no "
         "background thread could be started"});
  }
  CHECK(work.read(last) == reference.read(last));
  const std::string many = work.out("train tiny.yaml --fresh train.threads=1024");
  CHECK(contains(many, "; threads: 1024; "));
  CHECK_FALSE(contains(many, "no more threads could be started"));
  CHECK(work.read(last) == reference.read(last));
}

TEST_CASE("commands that lack memory for a batch or a model say what to reduce") {
  if (!limits_can_be_tried()) return;
  const TinyWorkplace work;
  const Outcome batch = run_in(200, work,
                               "train tiny.yaml data.train_size=20000 data.num_symbols=20 "
                               "data.max_length=7 train.batch_size=20000 model.d_model=256");
  CHECK(batch.code == 8);
  test::check_words(batch.err, {"tapestry: error: memory: the model and the largest step need ",
                                ", found 210 MB (ulimit -v)\n",
                                "hint: try a smaller train.batch_size with a larger"});
  CHECK_FALSE(contains(batch.out, "\nstep "));
  const auto check = [&](const std::string& command, const std::string& hint) {
    const Outcome outcome =
        run_in(140, work, command + " tiny.yaml model.d_model=256 model.d_ff=7000");
    check_lack_of_memory(outcome);
    test::check_words(outcome.err, {"\nhint: " + hint});
  };
  check("check", "try a smaller model, such as model.d_model=32");
  check("gradcheck", "try a smaller model, such as model.d_model=32");
  check("attention", "use a shorter text or example\n");
}

TEST_CASE("a model larger than any memory is rejected; training first prints the memory needed") {
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

// ---- Environment, other limits and the working folder

using test::check_words;

TEST_CASE(
    "an unknown value of an environment variable causes a warning that lists the known values") {
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
  for (const char* name : {"TAPESTRY_MATMUL", "TAPESTRY_KERNELS"}) {
    const std::string shown = error(name, "\x1B[31m\xC2\x9Bx");
    check_words(shown, {"found \\x1B[31m\\xC2\\x9Bx, expected one of "});
    CHECK_FALSE(contains(shown, "\x1B"));
  }
  for (const char* value : {"tapestry", "openblas", ""}) {
    CHECK(error("TAPESTRY_MATMUL", value).empty());
  }
}

TEST_CASE("every command runs on a stack of 64 KiB") {
#ifdef TAPESTRY_ASAN
  return;  // the frames of the sanitizer are several times as large
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

TEST_CASE("if the limit of open files is too low, the error names the limit") {
#ifdef TAPESTRY_ASAN
  return;  // the sanitizer opens descriptors when an exception is thrown
#endif
  const TrainedWorkplace work;
  // The limit permits one open file at a time, which the loader needs to open libraries.
  // Descriptors inherited from the test runner are closed.
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

/// Gives this process a deleted working folder, until the destructor restores the previous one.
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
              {"found a relative path, but the working directory does not exist",
               "hint: change to an existing folder with cd, or give absolute paths"});
}

}  // namespace
}  // namespace tapestry
