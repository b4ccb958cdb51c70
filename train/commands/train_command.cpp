#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <optional>

#include "autograd/kernels/parallel.h"
#include "data/error.h"
#include "data/load_corpus.h"
#include "train/checkpoint.h"
#include "train/commands/commands.h"
#include "train/config_error.h"
#include "train/config_listing.h"
#include "train/durable_file.h"
#include "train/error.h"
#include "train/exit_code.h"
#include "train/format.h"
#include "train/progress.h"
#include "train/run_lock.h"
#include "train/stop_signal.h"
#include "train/trainer.h"

namespace tapestry {
namespace {

/// Keys that a resumed run may change: they decide when to look and how long to go on, not what a
/// step computes.
constexpr std::array free_keys = {
    "train.steps",     "train.threads",           "train.log_every",
    "train.save_every", "train.validate_every",   "train.keep_last",
    "train.run_dir",   "train.max_decode_length", "train.exact_match_sequences"};

void describe(const Trainer& trainer, const ParallelCorpus& corpus, const std::string& run_dir,
              Progress& progress) {
  for (const std::string& note : corpus.notes) progress.message(note);
  progress.message(fmt::format("data: {} training pairs, {} validation, {} test; vocabularies of "
                               "{} and {}",
                               format_count(corpus.train.size()), format_count(corpus.validation.size()),
                               format_count(corpus.test.size()),
                               format_count(corpus.source_vocabulary.size()),
                               format_count(corpus.target_vocabulary.size())));
  progress.message(fmt::format("model: {} parameters in {} tensors; {} threads; run directory {}",
                               format_count(trainer.model().parameters.num_values()),
                               trainer.model().parameters.list().size(), kernels::num_threads(),
                               run_dir));
}

int train_to_the_end(Trainer& trainer, const std::string& run_dir, Progress& progress) {
  const StopSignal stop;
  trainer.run(&stop);
  if (!trainer.finished()) {
    progress.message(fmt::format("stopped by signal {} and saved at step {}; go on with: tapestry "
                                 "train --resume {}",
                                 stop.received(), format_count(trainer.step()), run_dir));
    return signal_exit_base + stop.received();
  }
  progress.message(fmt::format("done: {} steps; next: tapestry evaluate {}",
                               format_count(trainer.step()), run_dir));
  return static_cast<int>(ExitCode::done);
}

/// Makes room for a new run, or refuses: nothing is ever overwritten.
void clear_the_way(const RunDirectory& directory, bool fresh) {
  if (directory.steps().empty()) return;
  const std::string path = directory.path().string();
  if (!fresh) {
    throw ConfigError({{.place = {.file = path},
                        .message = fmt::format("a run lies there already, at step {}",
                                               format_count(directory.steps().back())),
                        .hint = fmt::format("go on with `tapestry train --resume {}`, start anew "
                                            "with --fresh (the old run is moved aside) or choose "
                                            "another train.run_dir",
                                            path)}});
  }
  std::size_t number = 1;
  while (std::filesystem::exists(fmt::format("{}.old-{}", path, number))) ++number;
  std::filesystem::rename(path, fmt::format("{}.old-{}", path, number));
}

int start(const TrainArguments& arguments) {
  const Config config = load_config(arguments.config, arguments.overrides);
  kernels::set_num_threads(config.train.threads);
  const std::string& run_dir = config.train.run_dir;
  RunDirectory directory(run_dir);
  clear_the_way(directory, arguments.fresh);
  const ParallelCorpus corpus = load_corpus(config.data, ".");

  directory.create();
  const RunLock lock(run_dir);
  directory.remove_stray_temporaries();
  const std::string text = dump_config(config);
  write_file_durably(directory.path() / "config.yaml", std::as_bytes(std::span(text)));

  Progress progress(stdout, 0, config.train.steps);
  progress.log_to((directory.path() / "train.log").string());
  Trainer trainer(config, corpus, directory, progress);
  describe(trainer, corpus, run_dir, progress);
  return train_to_the_end(trainer, run_dir, progress);
}

/// The config to go on with: the checkpoint's, changed where the user may change it.
Config resumed_config(const Snapshot& snapshot, const TrainArguments& arguments) {
  const Config before = config_of(snapshot);
  Config now = parse_config(dump_config(before), "config of the checkpoint", arguments.overrides);
  std::vector<Problem> problems;
  for (const auto& [key, checkpoint, value] : compare_configs(before, now)) {
    if (std::find(free_keys.begin(), free_keys.end(), key) != free_keys.end()) continue;
    problems.push_back({.place = {.file = fmt::format("command line: {}={}", key, value)},
                        .message = fmt::format("the run has {}, and what it has learnt so far "
                                               "depends on it",
                                               checkpoint),
                        .hint = "leave the key out, or start a new run with it"});
  }
  if (!problems.empty()) throw ConfigError(std::move(problems));
  now.train.run_dir = arguments.resume;
  return now;
}

ParallelCorpus same_corpus(const Config& config, const Snapshot& snapshot) {
  ParallelCorpus corpus = load_corpus(config.data, ".");
  if (corpus.fingerprint != data_fingerprint_of(snapshot)) {
    throw DataError("the data differ from those the run was started with",
                    "put the original files back, or start a new run");
  }
  return corpus;
}

int resume(const TrainArguments& arguments) {
  RunDirectory directory(arguments.resume);
  if (directory.steps().empty()) {
    throw CheckpointError(
        fmt::format("{}: holds no checkpoint to resume from", arguments.resume),
        "name a run directory, or start a run: tapestry train CONFIG");
  }
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
  progress.log_to((directory.path() / "train.log").string());
  for (const auto& [path, reason] : newest->rejected) {
    progress.message(fmt::format("warning: {}: passed over: {}", path.string(), reason));
  }
  progress.message(fmt::format("resuming {} at step {} of {}", arguments.resume,
                               format_count(trainer.step()), format_count(config.train.steps)));
  describe(trainer, corpus, arguments.resume, progress);
  return train_to_the_end(trainer, arguments.resume, progress);
}

}  // namespace

int train_command(const TrainArguments& arguments) {
  return arguments.resume.empty() ? start(arguments) : resume(arguments);
}

}  // namespace tapestry
