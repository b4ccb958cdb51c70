#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <span>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "autograd/kernels/parallel.h"
#include "autograd/profiler.h"
#include "data/error.h"
#include "data/load_corpus.h"
#include "train/checkpoint.h"
#include "train/commands/commands.h"
#include "train/commands/new_run.h"
#include "train/config_error.h"
#include "train/config_listing.h"
#include "train/durable_file.h"
#include "train/error.h"
#include "train/exit_code.h"
#include "train/format.h"
#include "train/machine.h"
#include "train/progress.h"
#include "train/run_lock.h"
#include "train/stop_signal.h"
#include "train/trainer.h"

namespace tapestry {
namespace {

/// Keys that a resumed run may change: they decide when to look and how long to go on, not what a
/// step computes.
constexpr std::array free_keys = {"train.steps",
                                  "train.threads",
                                  "train.log_every",
                                  "train.save_every",
                                  "train.validate_every",
                                  "train.keep_last",
                                  "train.max_decode_length",
                                  "train.exact_match_sequences",
                                  "train.detect_anomaly"};

void describe(const Trainer& trainer, const ParallelCorpus& corpus, const std::string& run_dir,
              Progress& progress) {
  for (const std::string& note : corpus.notes) progress.message(note);
  progress.message(
      fmt::format("data: {} training pairs, {} validation, {} test; vocabularies of "
                  "{} and {}",
                  format_count(corpus.train.size()), format_count(corpus.validation.size()),
                  format_count(corpus.test.size()), format_count(corpus.source_vocabulary.size()),
                  format_count(corpus.target_vocabulary.size())));
  progress.message(fmt::format("model: {} parameters in {} tensors; threads: {}; run directory {}",
                               format_count(trainer.model().parameters.num_values()),
                               trainer.model().parameters.list().size(), kernels::num_threads(),
                               run_dir));
  for (const auto& warning : {warning_about_cores(read_cores(), kernels::num_threads()),
                              warning_about_blas(read_blas())}) {
    if (warning) progress.message(*warning);
  }
}

void report(const Profile& profile, Progress& progress) {
  std::istringstream table(to_string(profile));
  for (std::string line; std::getline(table, line);) progress.message(line);
}

void run(Trainer& trainer, const StopSignal& stop, bool profiled, Progress& progress) {
  if (!profiled) return trainer.run(&stop);
  const Profiler profiler;
  trainer.run(&stop);
  report(profiler.profile(), progress);
}

int train_to_the_end(Trainer& trainer, const std::string& run_dir, bool profiled,
                     Progress& progress) {
  const StopSignal stop;
  run(trainer, stop, profiled, progress);
  if (!trainer.finished()) {
    progress.message(
        fmt::format("stopped by signal {} and saved at step {}; go on with: tapestry "
                    "train --resume {}",
                    stop.received(), format_count(trainer.step()), run_dir));
    return signal_exit_base + stop.received();
  }
  progress.message(fmt::format("done: {} steps; next: tapestry evaluate {}",
                               format_count(trainer.step()), run_dir));
  return static_cast<int>(ExitCode::done);
}

void write_config(const RunDirectory& directory, const Config& config) {
  const std::string text = dump_config(config);
  write_file_durably(directory.path() / "config.yaml", std::as_bytes(std::span(text)));
}

int start(const TrainArguments& arguments) {
  const Config config = load_config(arguments.config, arguments.overrides);
  kernels::set_num_threads(config.train.threads);
  const std::string& run_dir = config.train.run_dir;
  RunDirectory directory(run_dir);
  refuse_to_replace_files(directory);
  if (!arguments.fresh) refuse_to_replace_run(directory);
  const ParallelCorpus corpus = load_corpus(config.data, ".");
  Progress progress(stdout, 0, config.train.steps);
  Trainer trainer(config, corpus, directory, progress);

  // Nothing is left that the user would have to correct: only now is anything written.
  if (arguments.fresh) move_aside(directory);
  directory.create();
  const RunLock lock(run_dir);
  refuse_to_replace_run(directory);  // another process may have been here before the lock
  directory.remove_stray_temporaries();
  write_config(directory, config);
  progress.log_to((directory.path() / "train.log").string());
  describe(trainer, corpus, run_dir, progress);
  return train_to_the_end(trainer, run_dir, arguments.profile, progress);
}

/// The override of `key` that counts.
std::string last_given(const std::vector<std::string>& overrides, const std::string& key) {
  const auto found = std::find_if(overrides.rbegin(), overrides.rend(), [&](const auto& override) {
    return override.starts_with(key + "=");
  });
  return found == overrides.rend() ? key : *found;
}

Problem forbidden(const ConfigDifference& difference, const std::vector<std::string>& overrides) {
  Place place{.file = "command line: " + last_given(overrides, difference.key)};
  if (difference.key == "train.run_dir") {
    return {.place = std::move(place),
            .message = "a run goes on in its own directory",
            .hint = "leave the key out; to go on elsewhere, copy the directory"};
  }
  return {.place = std::move(place),
          .message = fmt::format("the run has {}, and what it has learnt so far depends on it",
                                 difference.checkpoint),
          .hint = "leave the key out, or start a new run with it"};
}

/// The config to go on with: the checkpoint's, changed where the user may change it.
Config resumed_config(const Snapshot& snapshot, const TrainArguments& arguments) {
  const Config before = config_of(snapshot);
  Config now = parse_config(dump_config(before), "config of the checkpoint", arguments.overrides);
  std::vector<Problem> problems;
  for (const ConfigDifference& difference : compare_configs(before, now)) {
    if (std::ranges::find(free_keys, difference.key) != free_keys.end()) continue;
    problems.push_back(forbidden(difference, arguments.overrides));
  }
  if (!problems.empty()) throw ConfigError(std::move(problems));
  now.train.run_dir = arguments.resume;
  return now;
}

ParallelCorpus same_corpus(const Config& config, const Snapshot& snapshot) {
  ParallelCorpus corpus = load_corpus(config.data, ".");
  if (corpus.fingerprint != data_fingerprint_of(snapshot)) {
    throw DataError(fmt::format("{}: the data differ from those the run was started with",
                                config.train.run_dir),
                    "put the original files back, or start a new run");
  }
  return corpus;
}

void require_run(const RunDirectory& directory) {
  if (!directory.steps().empty()) return;
  std::error_code ignored;
  const bool is_folder = std::filesystem::is_directory(directory.path(), ignored);
  throw CheckpointError(
      fmt::format("{}: {}, expected the directory of a run", directory.path().string(),
                  is_folder ? "holds no checkpoint to resume from" : "is no directory"),
      "name a run directory such as runs/copy, or start a run: tapestry train CONFIG");
}

int resume(const TrainArguments& arguments) {
  RunDirectory directory(arguments.resume);
  require_run(directory);
  const RunLock lock(directory.path());
  directory.remove_stray_temporaries();
  const auto newest = directory.read_newest();
  const Config config = resumed_config(newest->snapshot, arguments);
  kernels::set_num_threads(config.train.threads);
  const ParallelCorpus corpus = same_corpus(config, newest->snapshot);

  Progress progress(stdout, newest->step, config.train.steps);
  Trainer trainer(config, corpus, directory, progress);
  trainer.resume(newest->snapshot);
  if (trainer.finished()) {
    progress.message(fmt::format("{} is finished: {} of {} steps; give more with train.steps=N",
                                 arguments.resume, format_count(trainer.step()),
                                 format_count(config.train.steps)));
    return static_cast<int>(ExitCode::done);
  }
  write_config(directory, config);
  progress.log_to((directory.path() / "train.log").string());
  for (const auto& rejected : newest->rejected) {
    progress.message(fmt::format("warning: {}; an older checkpoint is used", rejected.reason));
  }
  progress.message(fmt::format("resuming {} at step {} of {}", arguments.resume,
                               format_count(trainer.step()), format_count(config.train.steps)));
  describe(trainer, corpus, arguments.resume, progress);
  return train_to_the_end(trainer, arguments.resume, arguments.profile, progress);
}

}  // namespace

int train_command(const TrainArguments& arguments) {
  return arguments.resume.empty() ? start(arguments) : resume(arguments);
}

}  // namespace tapestry
