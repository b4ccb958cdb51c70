// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/contains.h"
#include "tests/train/parallel/local_network.h"
#include "tests/train/program.h"
#include "tests/train/tiny_run.h"
#include "train/tasks/data_source.h"

/// Tests runs whose checkpoints are written in the background. In most tests, a checkpoint is
/// renamed only when the log contains a line of a later step. This line would never appear if
/// saving blocked training.
namespace tapestry {
namespace {

using test::contains;
using test::tiny_config;
using test::tiny_steps;
using test::TinyRun;

constexpr auto max_wait = std::chrono::seconds(20);

/// A file system that delays the rename of the first checkpoint.
class WaitingFileSystem : public FileSystem {
 public:
  /// The first checkpoint is renamed when this function returns true, or after max_wait.
  std::function<bool()> may_rename = [] { return true; };
  int error = 0;                ///< if not 0, the first rename fails with this error
  std::atomic<int> renames{0};  ///< number of renamed checkpoints
  std::atomic<bool> has_waited{false};
  std::atomic<int> files{0}, max_files{0};  ///< number of open checkpoints, and its maximum

  int open(const char* path, int flags, mode_t mode) override {
    if (contains(path, ".h5.tmp-")) max_files = std::max<int>(max_files, ++files);
    return FileSystem::open(path, flags, mode);
  }

  int rename(const char* from, const char* to) override {
    if (!std::string_view(to).ends_with(".h5")) return FileSystem::rename(from, to);
    const bool is_first = renames++ == 0;
    if (is_first) wait();
    --files;
    if (!is_first || error == 0) return FileSystem::rename(from, to);
    errno = error;
    return -1;
  }

 private:
  void wait() {
    const auto deadline = std::chrono::steady_clock::now() + max_wait;
    while (!may_rename()) {
      if (std::chrono::steady_clock::now() > deadline) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    has_waited = true;
  }
};

/// A run on a WaitingFileSystem.
struct SlowRun {
  SlowRun() {
    directory.create();
    progress.log_to((folder / "log").string());
  }

  /// The first checkpoint is renamed when the log contains this text.
  void rename_after(std::string text) {
    files.may_rename = [this, text = std::move(text)] {
      log_at_rename = log();
      return contains(log_at_rename, text);
    };
  }

  RunEnd train(const Config& config, const Interruptions& interruptions = {}) {
    const Corpus corpus = load_corpus(config.data);
    Trainer trainer(config, corpus, directory, progress);
    return trainer.run(interruptions);
  }

  std::string log() const { return test::read_text(folder / "log"); }
  std::vector<std::byte> checkpoint_bytes(std::uint64_t step) const {
    return read_binary_file(directory.checkpoint_path(step)).bytes;
  }

  test::TemporaryFolder folder;
  WaitingFileSystem files;
  std::string log_at_rename;  ///< the log when may_rename was called last
  RunDirectory directory{folder / "run", files};
  Progress progress{nullptr, 0, tiny_steps};
};

/// Saves at steps 3, 6, 9 and 12 (the last step); every step has a line in the log.
Config saving_four_times() {
  Config config = tiny_config();
  config.data.generated.validation_size = 0;
  config.train.log_every = 1;
  return config;
}

/// Saves before the first step and at steps 3, 6, 9 and 12.
Config saving_at_the_start() {
  Config config = saving_four_times();
  config.train.on_nan = OnNan::rollback;
  return config;
}

TEST_CASE("training continues while a checkpoint is written, up to the next save") {
  SlowRun run;
  run.rename_after("step  6/12");
  TinyRun sound;
  sound.train(saving_four_times());
  CHECK(run.train(saving_four_times()) == RunEnd::finished);
  CHECK(run.files.has_waited);
  CHECK_FALSE(contains(run.log_at_rename, "step  7/12"));
  CHECK(run.files.max_files == 1);
  CHECK(run.directory.steps() == sound.directory().steps());
  for (const std::uint64_t step : sound.directory().steps()) {
    CHECK(run.checkpoint_bytes(step) == sound.checkpoint_bytes(step));
  }
}

TEST_CASE(
    "a save that fails in the background causes a warning and does not count as a scheduled save") {
  SlowRun run;
  run.rename_after("step  5/12");
  run.files.error = ENOSPC;
  TinyRun sound;
  sound.train(saving_four_times());
  CHECK(run.train(saving_four_times()) == RunEnd::finished);
  CHECK(run.files.has_waited);
  CHECK(run.directory.steps() == std::vector<std::uint64_t>{6, 9, 12});
  CHECK(run.checkpoint_bytes(tiny_steps) == sound.checkpoint_bytes(tiny_steps));
  const std::string log = run.log();
  const auto warning = log.find("warning: not saved: ");
  REQUIRE(warning != log.npos);
  CHECK(warning > log.find("step  5/12"));
  CHECK(contains(log, "training continues (1 failed save in a row; the run stops after 3)"));
}

TEST_CASE("a run that stops finishes the save in progress, and then saves its last step") {
  SlowRun run;
  run.rename_after("step  4/12");
  CHECK(run.train(saving_four_times(), {.last_step = 4}) == RunEnd::last_step);
  CHECK(run.files.has_waited);
  CHECK(run.directory.steps() == std::vector<std::uint64_t>{3, 4});
}

TEST_CASE("a run that stops while its last step is saved repeats the save only if it fails") {
  for (const int error : {0, EIO}) {
    CAPTURE(error);
    SlowRun run;
    run.files.error = error;
    const TimeLimit spent(TimeLimit::Clock::now() - std::chrono::hours(1), std::chrono::seconds(1));
    CHECK(run.train(saving_at_the_start(), {.time = spent}) == RunEnd::time);
    CHECK(run.directory.steps() == std::vector<std::uint64_t>{0});
    CHECK(run.files.renames == (error == 0 ? 1 : 2));
    CHECK(contains(run.log(), "warning: not saved: ") == (error != 0));
  }
}

TEST_CASE("a signal during a save ends the run, and both checkpoints are complete") {
  SlowRun run;
  RunSignals signals;
  run.files.may_rename = [] { return ::kill(::getpid(), SIGTERM) == 0; };
  CHECK(run.train(saving_four_times(), {.signals = &signals}) == RunEnd::signal);
  const auto steps = run.directory.steps();
  CHECK(steps.front() == 3);
  CHECK(run.files.renames == static_cast<int>(steps.size()));
  TinyRun sound;
  sound.train(saving_four_times());
  Config config = saving_four_times();
  const Corpus corpus = load_corpus(config.data);
  Trainer resumed(config, corpus, run.directory, run.progress);
  resumed.resume(run.directory.read_newest()->arrays);
  resumed.run();
  CHECK(run.checkpoint_bytes(tiny_steps) == sound.checkpoint_bytes(tiny_steps));
}

TEST_CASE("the message of a save that a signal requested is printed after the save") {
  SlowRun run;
  run.rename_after("step  5/12");
  Config config = saving_four_times();
  config.train.save_every = 100;
  RunSignals signals;
  std::raise(SIGUSR1);  // honored after step 1
  CHECK(run.train(config, {.signals = &signals}) == RunEnd::finished);
  CHECK(run.files.has_waited);
  CHECK(run.directory.steps() == std::vector<std::uint64_t>{1, 12});
  const std::string log = run.log();
  const auto saved = log.find("saved at step 1 (requested by a signal)");
  REQUIRE(saved != log.npos);
  CHECK(saved > log.find("step  5/12"));
}

TEST_CASE("a signal that requests a save of the step that is being saved causes no second save") {
  SlowRun run;
  Config config = saving_four_times();
  config.train.save_every = 1;
  config.train.steps = 2;
  RunSignals signals;
  std::raise(SIGUSR1);
  CHECK(run.train(config, {.signals = &signals}) == RunEnd::finished);
  CHECK(run.files.renames == 2);
  CHECK(contains(run.log(), "saved at step 1 (requested by a signal)"));
}

TEST_CASE("a run that ends with an error finishes the save in progress first") {
  for (const int error : {0, ENOSPC}) {
    CAPTURE(error);
    SlowRun run;
    std::atomic<bool> has_thrown = false;
    run.files.error = error;
    run.files.may_rename = [&] { return has_thrown.load(); };
    // Called after the first step.
    run.progress.message_later(std::chrono::seconds(0), [&]() -> std::optional<std::string> {
      has_thrown = true;
      throw std::runtime_error("an error of training");
    });
    CHECK_THROWS_AS(run.train(saving_at_the_start()), std::runtime_error);
    CHECK(run.files.has_waited);
    CHECK(run.directory.steps().size() == (error == 0 ? 1 : 0));
    CHECK(run.directory.remove_stray_temporaries().removed.empty());
    CHECK(contains(run.log(), "warning: not saved: ") == (error != 0));
  }
}

TEST_CASE("a rollback uses the checkpoint that is being saved when a step fails") {
  Config config = saving_at_the_start();
  config.train.batch_size = config.train.accumulate = 1;  // only some steps contain the symbol
  config.train.steps = 20;
  config.train.max_nan_steps = 20;
  config.train.save_every = 1;
  struct SlowDisk : FileSystem {
    int rename(const char* from, const char* to) override {
      if (std::string_view(to).ends_with(".h5")) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
      return FileSystem::rename(from, to);
    }
  } slow;
  const auto end_of_run_on = [&](FileSystem& files) {
    test::TemporaryFolder folder;
    RunDirectory directory(folder / "run", files);
    directory.create();
    Progress progress(nullptr, 0, config.train.steps);
    const Corpus corpus = load_corpus(config.data);
    Trainer trainer(config, corpus, directory, progress);
    test::poison(trainer.model());
    trainer.run();
    CHECK(contains(read_checkpoint(directory.checkpoint_path(20)).get_text("train/history"),
                   "rolled back"));
    return read_binary_file(directory.checkpoint_path(20)).bytes;
  };
  CHECK(end_of_run_on(slow) == end_of_run_on(posix_file_system()));
}

TEST_CASE(
    "rank 0 writes a checkpoint while all processes train, and all processes receive the result") {
  Config config = saving_four_times();
  TinyRun sound;
  sound.train(config);
  for (const int error : {0, ENOSPC}) {
    CAPTURE(error);
    SlowRun run;
    run.files.error = error;
    run.rename_after("step  5/12");
    const Corpus corpus = load_corpus(config.data);
    test::run_processes(2, [&](ProcessGroup& group) {
      Progress silent(nullptr, 0, tiny_steps);
      RunDirectory other(run.directory.path());
      const bool first = group.is_rank_0();
      Trainer trainer(config, corpus, first ? run.directory : other, first ? run.progress : silent,
                      group);
      CHECK(trainer.run() == RunEnd::finished);
    });
    CHECK(run.files.has_waited);
    CHECK(std::ranges::count(run.directory.steps(), 12U) == 1);
    CHECK(contains(run.log(), "warning: not saved: ") == (error != 0));
    CHECK(run.checkpoint_bytes(tiny_steps) == sound.checkpoint_bytes(tiny_steps));
  }
}

}  // namespace
}  // namespace tapestry
