#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <new>
#include <set>
#include <string>
#include <vector>

#include "tests/support/contains.h"
#include "tests/support/faulty_file_system.h"
#include "tests/train/error_text.h"
#include "tests/train/program.h"
#include "tests/train/tiny_run.h"
#include "train/base/error.h"
#include "train/loop/run_saver.h"
#include "train/tasks/data_source.h"

/// When a run is saved, what happens if that fails, and when it ends before its last step.
namespace tapestry {
namespace {

using test::contains;
using test::FaultyFileSystem;
using test::tiny_config;
using test::tiny_steps;
using test::TinyRun;

/// A run on a disk that fails on demand; its checkpoints are looked at by the real file system.
struct FaultyRun {
  FaultyRun() { directory.create(); }

  RunEnd train(const Config& config) {
    const Corpus corpus = load_corpus(config.data);
    Trainer trainer(config, corpus, directory, progress);
    if (const auto newest = directory.read_newest()) trainer.resume(newest->arrays);
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
  config.data.generated.validation_size = 0;
  return config;
}

/// The number of files that a save writes: metrics and checkpoint.
constexpr std::size_t files_of_a_save = 2;

TEST_CASE("a run continues after a failed save and ends with the bytes of an undisturbed run") {
  FaultyRun run;
  TinyRun sound;
  sound.train(saving_four_times());
  run.files.fail_times("rename", 1, ENOSPC);
  CHECK(run.train(saving_four_times()) == RunEnd::finished);
  CHECK(run.directory.steps() == std::vector<std::uint64_t>{6, 9, 12});
  CHECK(run.checkpoint_bytes(tiny_steps) == sound.checkpoint_bytes(tiny_steps));
}

TEST_CASE("two failed saves in a row are warnings, the third ends the run") {
  FaultyRun twice, thrice;
  twice.files.fail_times("fsync", 2, EIO);
  CHECK(twice.train(saving_four_times()) == RunEnd::finished);
  CHECK(twice.directory.steps() == std::vector<std::uint64_t>{9, 12});
  thrice.files.fail_times("fsync", 3, EIO);
  CHECK_THROWS_AS(thrice.train(saving_four_times()), OutputError);
  CHECK(thrice.directory.steps().empty());
}

TEST_CASE("an old checkpoint that cannot be deleted causes one warning, and the run continues") {
  FaultyRun run;
  Config config = saving_four_times();
  config.train.keep_last = 1;
  run.files.failing_name = "unlink";
  run.files.error = EPERM;
  run.progress.log_to((run.folder / "log").string());
  CHECK(run.train(config) == RunEnd::finished);
  CHECK(run.directory.steps() == std::vector<std::uint64_t>{3, 6, 9, 12});
  const std::string log = test::read_text(run.folder / "log");
  for (const std::uint64_t step : {3, 6, 9}) {
    const std::string warning =
        "warning: old checkpoint not deleted: " + run.directory.checkpoint_path(step).string() +
        ": could not delete the file: Operation not permitted\n";
    const auto at = log.find(warning);
    REQUIRE(at != log.npos);
    CHECK(log.find(warning, at + 1) == log.npos);
  }
}

TEST_CASE("a failed last save is an error, and older checkpoints are kept") {
  FaultyRun run;
  Config config = saving_four_times();
  config.train.steps = 3;
  REQUIRE(run.train(config) == RunEnd::finished);
  const auto before = run.checkpoint_bytes(3);
  config.train.steps = 6;
  run.files.fail_times("write", 1, ENOSPC);
  const std::string text = test::error_text<OutputError>([&] { run.train(config); });
  CHECK(text.find("could not write: No space left on device (") != std::string::npos);
  CHECK(text.find(" free)") != std::string::npos);
  CHECK(run.directory.steps() == std::vector<std::uint64_t>{3});
  CHECK(run.checkpoint_bytes(3) == before);
  CHECK(run.directory.remove_stray_temporaries().removed.empty());
  REQUIRE(run.train(config) == RunEnd::finished);
  TinyRun sound;
  sound.train(config);
  CHECK(run.checkpoint_bytes(6) == sound.checkpoint_bytes(6));
}

TEST_CASE("a save resets the count of steps that were not finite, a failed one does not") {
  for (const bool fails : {false, true}) {
    CAPTURE(fails);
    FaultyRun run;
    Config config = saving_four_times();
    config.train.on_nan = OnNan::rollback;
    config.train.steps = 1;
    run.train(config);
    ArrayStore counted;
    for (const auto& [path, array] : read_checkpoint(run.directory.checkpoint_path(1))) {
      if (path != "train/nan_steps") counted.put(path, array);
    }
    counted.put_scalar("train/nan_steps", std::uint64_t{2});
    write_checkpoint(run.directory.checkpoint_path(1), counted);
    config.train.steps = 4;
    if (fails) run.files.fail_times("rename", 1, ENOSPC);
    REQUIRE(run.train(config) == RunEnd::finished);  // saved at 3 on schedule, at 4 as it ends
    const ArrayStore end = read_checkpoint(run.directory.checkpoint_path(4));
    CHECK(end.get_scalar<std::uint64_t>("train/nan_steps") == (fails ? 2 : 0));
    CHECK(end.get_scalar<std::uint64_t>("train/scheduled_save") == (fails ? 0 : 3));
  }
}

TEST_CASE("metrics are complete once the last checkpoint exists") {
  TinyRun sound;
  sound.train(tiny_config());
  FaultyRun run;
  run.files.calls.clear();
  run.train(tiny_config());
  REQUIRE(run.files.calls.back() != "rename");  // the folder is flushed behind it
  CHECK(std::ranges::count(run.files.calls, "rename") % files_of_a_save == 0);
  CHECK(read_binary_file(run.directory.path() / "metrics.csv").bytes == sound.metrics());
}

/// The values of a column of metrics.csv in the rows of validation, by step.
std::map<std::uint64_t, double> validated(const TinyRun& run, std::size_t column) {
  std::map<std::uint64_t, double> values;
  for (const auto& row : run.metrics_rows("validation")) {
    values[std::stoull(row[0])] = std::stod(row[column]);
  }
  return values;
}

constexpr std::size_t loss_column = 3, perplexity_column = 4, accuracy_column = 5;

TEST_CASE("the best checkpoint has the best value of train.best_metric") {
  struct Row {
    const char* metric;
    std::size_t column;
    bool highest;
  };
  std::set<std::uint64_t> best_steps;
  for (const auto& [metric, column, highest] :
       {Row{"loss", loss_column, false}, Row{"perplexity", perplexity_column, false},
        Row{"token_accuracy", accuracy_column, true}}) {
    CAPTURE(metric);
    Config config = tiny_config();
    config.train.validate_every = 1;
    config.train.best_metric = metric;
    TinyRun run;
    run.train(config);
    const auto values = validated(run, column);
    const auto value = [](const auto& row) { return row.second; };
    const auto best = highest ? std::ranges::max_element(values, {}, value)
                              : std::ranges::min_element(values, {}, value);
    const ArrayStore end = run.snapshot(tiny_steps);
    CHECK(end.get_scalar<std::uint64_t>("train/best_step") == best->first);
    CHECK(end.get_scalar<double>("train/best_loss") == best->second);
    best_steps.insert(best->first);
  }
  CHECK(best_steps.size() > 1);
}

TEST_CASE("a run resumed with other values of the best score has a new best checkpoint") {
  Config config = tiny_config();
  config.train.validate_every = 1;
  config.train.steps = 6;
  SUBCASE("another train.best_metric") {
    TinyRun run;
    run.train(config);
    config.train.steps = tiny_steps;
    config.train.best_metric = "token_accuracy";
    run.train(config);
    auto shares = validated(run, accuracy_column);
    shares.erase(shares.begin(), shares.upper_bound(6));
    const auto best = std::ranges::max_element(shares, {}, [](auto& row) { return row.second; });
    CHECK(run.snapshot(tiny_steps).get_scalar<std::uint64_t>("train/best_step") == best->first);
  }
  SUBCASE("another BLEU tokenizer") {
    config.train.best_metric = "bleu";
    TinyRun run;
    run.train(config);
    config.train.steps = 7;
    config.train.bleu_tokenizer = BleuTokenizer::character;
    run.train(config);
    CHECK(run.snapshot(7).get_scalar<std::uint64_t>("train/best_step") == 7);
  }
}

TEST_CASE("a run ends by train.patience, and continues with more patience") {
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

TEST_CASE("a run at its time limit saves and can be resumed to the same bytes") {
  TinyRun run, sound;
  sound.train(tiny_config());
  const Config config = tiny_config();
  const Corpus corpus = load_corpus(config.data);
  Trainer trainer(config, corpus, run.directory(), run.progress());
  const TimeLimit spent(TimeLimit::Clock::now() - std::chrono::hours(1), std::chrono::seconds(1));
  CHECK(trainer.run({.time = spent}) == RunEnd::time);
  CHECK_FALSE(trainer.finished());
  REQUIRE(run.directory().steps().back() == trainer.step());
  run.train(config);
  CHECK(run.checkpoint_bytes(tiny_steps) == sound.checkpoint_bytes(tiny_steps));
}

TEST_CASE("the size of a checkpoint is known before it is written, except for its texts") {
  TinyRun run;
  const Config config = tiny_config();
  const Corpus corpus = load_corpus(config.data);
  Trainer trainer(config, corpus, run.directory(), run.progress());
  trainer.run();
  const std::uint64_t size = run.snapshot(tiny_steps).byte_size();
  CHECK(trainer.checkpoint_bytes() < size);
  CHECK(trainer.checkpoint_bytes() > size - 4096);
}

// ---- SaveAttempts: which failures end a run, and what they tell.

/// Attempts whose warnings can be read.
struct WatchedAttempts {
  WatchedAttempts() { progress.log_to((folder / "log").string()); }

  std::string log() const { return test::read_text(folder / "log"); }
  bool fail_on_disk(bool last = false, std::uint64_t step = 1200) {
    const auto full_disk = [] { throw OutputError("file: No space left", "free space"); };
    return attempts.attempt(full_disk, step, last);
  }
  bool fail_in_memory(bool last = false) {
    return attempts.attempt([] { throw std::bad_alloc(); }, 1200, last);
  }

  test::TemporaryFolder folder;
  Progress progress{nullptr, 0, 1};
  RunDirectory directory{folder / "my run"};
  SaveAttempts attempts{progress, directory};
};

TEST_CASE("saves that fail once or twice in a row are warnings with reason and number") {
  WatchedAttempts watched;
  for (int round = 0; round < 3; ++round) {
    CHECK_FALSE(watched.fail_on_disk());
    CHECK_FALSE(watched.fail_in_memory());
    CHECK(watched.attempts.attempt([] {}, 1200, false));
  }
  const std::string log = watched.log();
  CHECK(contains(log, "warning: not saved: file: No space left; training continues (1 failed "));
  CHECK(contains(log, "warning: not saved: no memory for a checkpoint; training continues (2 "));
  CHECK(std::ranges::count(log, '\n') == 6);
  CHECK_THROWS_AS(watched.attempts.attempt([] { throw NumericError("x"); }, 1200, false),
                  NumericError);  // not an error of saving
}

TEST_CASE("the third failure has the reason, the step, the newest checkpoint and how to resume") {
  WatchedAttempts watched;
  watched.directory.create();
  for (const std::uint64_t saved : {800, 900, 1300}) {  // the last by an abandoned continuation
    test::write_text(watched.directory.checkpoint_path(saved), "");
  }
  watched.fail_on_disk(false, 1000);
  watched.fail_on_disk(false, 1100);
  const std::string text = test::error_text<OutputError>([&] { watched.fail_on_disk(); });
  for (const std::string& part :
       {std::string("file: No space left; the run ends at step 1,200"),
        std::string("3 saves in a row"), watched.directory.checkpoint_path(900).string() + "\n",
        "free space, then resume with `tapestry train --resume '" +
            watched.directory.path().string() + "'`"}) {
    CAPTURE(part);
    CHECK(contains(text, part));
  }
}

TEST_CASE("a failure of the last save is thrown at once, and says that there is no checkpoint") {
  WatchedAttempts watched;
  const std::string text = test::error_text<OutputError>([&] { watched.fail_on_disk(true); });
  CHECK(contains(text, "its last save has failed; it has no checkpoint\n"));
  CHECK(contains(text, "free space, then start the run again"));
  CHECK(watched.log().empty());
  CHECK_THROWS_AS(watched.fail_in_memory(true), std::bad_alloc);
  CHECK(contains(watched.log(), "its last save has failed; it has no checkpoint; start the run"));
}

}  // namespace
}  // namespace tapestry
