#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/faulty_file_system.h"
#include "tests/train/error_text.h"
#include "tests/train/tiny_run.h"
#include "train/error.h"
#include "train/tasks/data_source.h"

/// When a run is saved, what happens if that fails, and when it ends before its last step.
namespace tapestry {
namespace {

using test::FaultyFileSystem;
using test::tiny_config;
using test::tiny_steps;
using test::TinyRun;

/// A run on a disk that fails on demand; its checkpoints are looked at by the real file system.
struct FaultyRun {
  FaultyRun() { directory.create(); }

  Trainer::End train(const Config& config) {
    const Corpus corpus = load_corpus(config.data);
    Trainer trainer(config, corpus, directory, progress);
    if (const auto newest = directory.read_newest()) trainer.resume(newest->snapshot);
    return trainer.run();
  }

  std::vector<std::byte> checkpoint_bytes(std::uint64_t step) const {
    return read_binary_file(directory.checkpoint_path(step)).bytes;
  }

  test::TemporaryFolder folder;
  FaultyFileSystem files;
  RunDirectory directory{folder / "run", files};
  Progress progress{nullptr, 0, tiny_steps};
};

/// Saves at 3, 6, 9 and 12, the last.
Config saving_four_times() {
  Config config = tiny_config();
  config.data.validation_size = 0;
  return config;
}

/// The number of files that a save writes: metrics and checkpoint.
constexpr std::size_t files_of_a_save = 2;

TEST_CASE("a run goes on after a failed save and ends with the bytes of one without") {
  FaultyRun run;
  TinyRun sound;
  sound.train(saving_four_times());
  run.files.fail_times("rename", 1, ENOSPC);
  CHECK(run.train(saving_four_times()) == Trainer::End::finished);
  CHECK(run.directory.steps() == std::vector<std::uint64_t>{6, 9, 12});
  CHECK(run.checkpoint_bytes(tiny_steps) == sound.checkpoint_bytes(tiny_steps));
}

TEST_CASE("two failed saves in a row are forgiven, the third ends the run") {
  FaultyRun twice, thrice;
  twice.files.fail_times("fsync", 2, EIO);
  CHECK(twice.train(saving_four_times()) == Trainer::End::finished);
  CHECK(twice.directory.steps() == std::vector<std::uint64_t>{9, 12});
  thrice.files.fail_times("fsync", 3, EIO);
  CHECK_THROWS_AS(thrice.train(saving_four_times()), OutputError);
  CHECK(thrice.directory.steps().empty());
}

TEST_CASE("a failed last save is an error that leaves the older checkpoints") {
  FaultyRun run;
  Config config = saving_four_times();
  config.train.steps = 3;
  REQUIRE(run.train(config) == Trainer::End::finished);
  const auto before = run.checkpoint_bytes(3);
  config.train.steps = 6;
  run.files.fail_times("write", 1, ENOSPC);
  const std::string text = test::error_text<OutputError>([&] { run.train(config); });
  CHECK(text.find("could not write: No space left on device (") != std::string::npos);
  CHECK(text.find(" free)") != std::string::npos);
  CHECK(run.directory.steps() == std::vector<std::uint64_t>{3});
  CHECK(run.checkpoint_bytes(3) == before);
  CHECK(run.directory.remove_stray_temporaries().empty());
  REQUIRE(run.train(config) == Trainer::End::finished);
  TinyRun sound;
  sound.train(config);
  CHECK(run.checkpoint_bytes(6) == sound.checkpoint_bytes(6));
}

TEST_CASE("a save forgives the steps that were not finite before it, a failed one does not") {
  for (const bool fails : {false, true}) {
    CAPTURE(fails);
    FaultyRun run;
    Config config = saving_four_times();
    config.train.on_nan = OnNan::rollback;
    config.train.steps = 1;
    run.train(config);
    Snapshot counted;
    for (const auto& [path, array] : read_checkpoint(run.directory.checkpoint_path(1))) {
      if (path != "train/nan_steps") counted.put(path, array);
    }
    counted.put_scalar("train/nan_steps", std::uint64_t{2});
    write_checkpoint(run.directory.checkpoint_path(1), counted);
    config.train.steps = 4;
    if (fails) run.files.fail_times("rename", 1, ENOSPC);
    REQUIRE(run.train(config) ==
            Trainer::End::finished);  // saved at 3 on schedule, at 4 as it ends
    const Snapshot end = read_checkpoint(run.directory.checkpoint_path(4));
    CHECK(end.get_scalar<std::uint64_t>("train/nan_steps") == (fails ? 2 : 0));
    CHECK(end.get_scalar<std::uint64_t>("train/scheduled_save") == (fails ? 0 : 3));
  }
}

TEST_CASE("metrics are complete as soon as the last checkpoint is there") {
  TinyRun sound;
  sound.train(tiny_config());
  FaultyRun run;
  run.files.calls.clear();
  run.train(tiny_config());
  REQUIRE(run.files.calls.back() != "rename");  // the folder is flushed behind it
  CHECK(std::ranges::count(run.files.calls, "rename") % files_of_a_save == 0);
  CHECK(read_binary_file(run.directory.path() / "metrics.csv").bytes == sound.metrics());
}

TEST_CASE("a run whose validation stops improving ends, and goes on with more patience") {
  Config config = tiny_config();
  config.optimizer.kind = OptimizerKind::sgd;
  config.schedule = {.learning_rate = 1e-30};  // the loss stays, to the bit: never a new best
  config.train.validate_every = 1;
  config.train.patience = 3;
  TinyRun run;
  run.train(config);
  // The first validation is the best, three more are not.
  CHECK(run.directory().steps().back() == 4);
  run.train(config);
  CHECK(run.directory().steps().back() == 4);
  config.train.patience = 5;
  run.train(config);
  CHECK(run.directory().steps().back() == 6);

  TinyRun at_once;
  at_once.train(config);
  CHECK(run.checkpoint_bytes(6) == at_once.checkpoint_bytes(6));
}

TEST_CASE("a run whose time is up saves and can be resumed to the same bytes") {
  TinyRun run, sound;
  sound.train(tiny_config());
  const Config config = tiny_config();
  const Corpus corpus = load_corpus(config.data);
  Trainer trainer(config, corpus, run.directory(), run.progress());
  const TimeLimit spent(TimeLimit::Clock::now() - std::chrono::hours(1), std::chrono::seconds(1));
  CHECK(trainer.run({.time = spent}) == Trainer::End::time);
  CHECK_FALSE(trainer.finished());
  REQUIRE(run.directory().steps().back() == trainer.step());
  run.train(config);
  CHECK(run.checkpoint_bytes(tiny_steps) == sound.checkpoint_bytes(tiny_steps));
}

TEST_CASE("the size of a checkpoint is known before it is written, but for its texts") {
  TinyRun run;
  const Config config = tiny_config();
  const Corpus corpus = load_corpus(config.data);
  Trainer trainer(config, corpus, run.directory(), run.progress());
  trainer.run();
  const std::uint64_t size = run.snapshot(tiny_steps).byte_size();
  CHECK(trainer.checkpoint_bytes() < size);
  CHECK(trainer.checkpoint_bytes() > size - 4096);
}

}  // namespace
}  // namespace tapestry
