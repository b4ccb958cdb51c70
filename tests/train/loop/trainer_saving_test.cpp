// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/support/contains.h"
#include "tests/support/faulty_file_system.h"
#include "tests/train/error_text.h"
#include "tests/train/program.h"
#include "tests/train/tiny_run.h"
#include "train/base/error.h"
#include "train/tasks/data_source.h"

/// Tests scheduled saves, failed saves, and runs that end before their last step.
namespace tapestry {
namespace {

using test::contains;
using test::FaultyFileSystem;
using test::tiny_config;
using test::tiny_steps;
using test::TinyRun;

/// A run on a file system that fails on demand. Its checkpoints are read from the real file system.
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

/// Saves at steps 3, 6, 9 and 12 (the last step).
Config saving_four_times() {
  Config config = tiny_config();
  config.data.generated.validation_size = 0;
  return config;
}

/// The number of files that a save writes: metrics and checkpoint.
constexpr std::size_t files_of_a_save = 2;

TEST_CASE("a run that continues after a failed save is bit-identical to a run without failures") {
  FaultyRun run;
  TinyRun sound;
  sound.train(saving_four_times());
  run.files.fail_times("rename", 1, ENOSPC);
  CHECK(run.train(saving_four_times()) == RunEnd::finished);
  CHECK(run.directory.steps() == std::vector<std::uint64_t>{6, 9, 12});
  CHECK(run.checkpoint_bytes(tiny_steps) == sound.checkpoint_bytes(tiny_steps));
}

TEST_CASE("two consecutive failed saves cause warnings, and a third ends the run with an error") {
  FaultyRun twice, thrice, resumed;
  twice.progress.log_to((twice.folder / "log").string());
  twice.files.fail_times("fsync", 2, EIO);
  CHECK(twice.train(saving_four_times()) == RunEnd::finished);
  CHECK(twice.directory.steps() == std::vector<std::uint64_t>{9, 12});
  const std::string log = test::read_text(twice.folder / "log");
  CHECK(contains(log, "; training continues (1 failed save in a row; the run stops after 3)"));
  CHECK(contains(log, "; training continues (2 failed saves in a row; the run stops after 3)"));

  thrice.files.fail_times("fsync", 3, EIO);
  const std::string text =
      test::error_text<OutputError>([&] { thrice.train(saving_four_times()); });
  CHECK(contains(text, "; the run ends at step "));
  CHECK(contains(text, ", since 3 saves in a row have failed; it has no checkpoint\n"));
  CHECK(contains(text, "then start the run again"));
  CHECK(thrice.directory.steps().empty());

  // A checkpoint of an abandoned continuation does not count as the newest checkpoint.
  test::write_text(resumed.directory.checkpoint_path(900), "");
  resumed.files.fail_times("fsync", 3, EIO);
  const Config config = saving_four_times();
  const Corpus corpus = load_corpus(config.data);
  Trainer trainer(config, corpus, resumed.directory, resumed.progress);
  CHECK(
      contains(test::error_text<OutputError>([&] { trainer.run(); }), "; it has no checkpoint\n"));
}

TEST_CASE("failed saves that are not consecutive do not end the run") {
  FaultyRun run;
  Config config = saving_four_times();
  config.train.save_every = 2;
  const Corpus corpus = load_corpus(config.data);
  Trainer trainer(config, corpus, run.directory, run.progress);
  run.files.fail_times("rename", 2, EIO);
  CHECK(trainer.run({.last_step = 6}) == RunEnd::last_step);
  run.files.fail_times("rename", 1, EIO);
  CHECK(trainer.run() == RunEnd::finished);
  CHECK(run.directory.steps() == std::vector<std::uint64_t>{6, 10, 12});
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
  for (const std::string& part :
       {std::string("could not write: No space left on device ("), std::string(" free)"),
        "; the run ends at step 6, since its last save has failed; its newest checkpoint is " +
            run.directory.checkpoint_path(3).string() + "\n",
        "then resume with `tapestry train --resume " + run.directory.path().string() + "`"}) {
    CAPTURE(part);
    CHECK(contains(text, part));
  }
  CHECK(run.directory.steps() == std::vector<std::uint64_t>{3});
  CHECK(run.checkpoint_bytes(3) == before);
  CHECK(run.directory.remove_stray_temporaries().removed.empty());
  REQUIRE(run.train(config) == RunEnd::finished);
  TinyRun sound;
  sound.train(config);
  CHECK(run.checkpoint_bytes(6) == sound.checkpoint_bytes(6));
}

TEST_CASE("a successful save resets the count of non-finite steps, but a failed save does not") {
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
    // Saves on schedule at step 3, and at the end at step 4.
    REQUIRE(run.train(config) == RunEnd::finished);
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
  REQUIRE(run.files.calls.back() != "rename");  // the folder is flushed after the rename
  CHECK(std::ranges::count(run.files.calls, "rename") % files_of_a_save == 0);
  CHECK(read_binary_file(run.directory.path() / "metrics.csv").bytes == sound.metrics());
}

/// The values of a column of metrics.csv in the validation rows, by step.
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
    const auto& shown = metric;  // clang 14 cannot capture structured bindings
    CAPTURE(shown);
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

TEST_CASE("a run resumed with a different best score has a new best checkpoint") {
  Config config = tiny_config();
  config.train.validate_every = 1;
  config.train.steps = 6;
  SUBCASE("a different train.best_metric") {
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
  SUBCASE("a different BLEU tokenizer") {
    config.train.best_metric = "bleu";
    TinyRun run;
    run.train(config);
    config.train.steps = 7;
    config.train.bleu_tokenizer = BleuTokenizer::character;
    run.train(config);
    CHECK(run.snapshot(7).get_scalar<std::uint64_t>("train/best_step") == 7);
  }
}

TEST_CASE("train.patience ends a run, which continues if the value is increased") {
  Config config = tiny_config();
  config.optimizer.kind = OptimizerKind::sgd;
  config.schedule = {.learning_rate = 1e-30};  // the loss remains the same, so there is no new best
  config.train.validate_every = 1;
  config.train.patience = 3;
  TinyRun run;
  run.train(config);
  // The first validation is the best; three later validations are not better.
  CHECK(run.directory().steps().back() == 4);
  run.train(config);
  CHECK(run.directory().steps().back() == 4);
  config.train.patience = 5;
  run.train(config);
  CHECK(run.directory().steps().back() == 6);

  TinyRun at_once;
  at_once.train(config);
  CHECK(run.checkpoint_bytes(6) == at_once.checkpoint_bytes(6));

  // No validation has been compared by this metric yet.
  config.train.best_metric = "token_accuracy";
  run.train(config);
  CHECK(run.directory().steps().back() == tiny_steps);
}

TEST_CASE("a run at its time limit saves, and ends with the same bytes after a resume") {
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

}  // namespace
}  // namespace tapestry
