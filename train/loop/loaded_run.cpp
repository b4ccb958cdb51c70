// SPDX-License-Identifier: BSD-3-Clause
#include "train/loop/loaded_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "data/io/durable_file.h"
#include "data/io/utf8.h"
#include "train/base/error.h"
#include "train/base/format.h"
#include "train/base/program.h"
#include "train/checkpoint/open_run.h"
#include "train/checkpoint/run_state.h"
#include "train/config/config.h"
#include "train/config/difference.h"
#include "train/config/error.h"
#include "train/config/load.h"
#include "train/config/steps.h"
#include "train/loop/final_average.h"
#include "train/loop/new_config.h"
#include "train/loop/progress.h"
#include "train/models/run_data.h"
#include "train/recording/event_log.h"
#include "train/system/standard_streams.h"
#include "train/tasks/task_data.h"

namespace tapestry {
namespace {

/// Returns the result of `load`. If `data` uses a cache, rank 0 writes it before the other
/// processes read it.
template <class Load>
auto load_with_cache(DataOptions& data, ProcessGroup& group, const Load& load) {
  // If only some processes need a cache, the files of the processes have different sizes and are
  // rejected later.
  if (!group.any_process(uses_cache(data)) || group.size() == 1) return load();
  decltype(load()) loaded;
  group.on_rank_0([&] { loaded = load(); });
  if (group.is_rank_0()) return loaded;
  data.training.cache_is_read_only = true;
  return load();
}

}  // namespace

void require_no_run(const RunDirectory& directory) {
  const auto steps = directory.steps();
  if (steps.empty()) return;
  const std::string path = directory.path().string();
  throw ConfigError(
      {{.place = {.file = path},
        .message = fmt::format("already contains a run, at step {}", format_count(steps.back())),
        .hint = fmt::format("resume it with `{} train --resume {}`, start over with --fresh (the "
                            "old run is moved aside) or choose another train.run_dir",
                            program_name(), format_argument(path))}});
}

void require_no_files(const RunDirectory& directory) {
  std::error_code ignored;
  if (std::filesystem::is_directory(directory.path() / "checkpoints", ignored)) return;
  for (const char* name :
       {"config.yaml", "metrics.csv", events_file_name, "average.h5", "train.log"}) {
    const auto path = directory.path() / name;
    if (!std::filesystem::exists(path, ignored)) continue;
    throw ConfigError({{.place = {.file = path.string()},
                        .message = "exists and is not part of a run; a run here would overwrite it",
                        .hint = "choose another train.run_dir"}});
  }
  for (const auto& entry : std::filesystem::directory_iterator(directory.path(), ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with('.')) continue;  // hidden files such as .gitkeep
    throw ConfigError({{.place = {.file = directory.path().string()},
                        .message = fmt::format("contains other files, such as {}, and is not a run "
                                               "directory, expected a new or an empty directory",
                                               name),
                        .hint = "choose another train.run_dir"}});
  }
}

// ---- A new run.

namespace {

/// The first of PATH.old-1, PATH.old-2, ... that does not exist.
std::string find_path_aside(const std::string& path) {
  std::size_t number = 1;
  while (std::filesystem::exists(fmt::format("{}.old-{}", path, number))) ++number;
  return fmt::format("{}.old-{}", path, number);
}

/// Moves an existing run in the directory aside, and returns its new directory; nullopt without a
/// run.
std::optional<RunDirectory> move_aside(const RunDirectory& directory) {
  if (directory.steps().empty()) return std::nullopt;
  const RunLock lock(directory.path());
  std::string path = directory.path().string();
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  const std::string aside = find_path_aside(path);
  std::error_code error;
  std::filesystem::rename(path, aside, error);
  if (error) {
    throw OutputError(
        fmt::format("{}: could not move the run aside: {}", escaped(path), error.message()),
        "choose another train.run_dir");
  }
  return RunDirectory(aside);
}

/// Creates the folder of the cache. With `fresh`, the directory may have an old run, which is moved
/// aside later; its cache is reused or replaced. Deletes temporary files of crashes, which may be
/// as large as the cache.
void prepare_cache_of_new_run(LoadedRun& run, bool fresh) {
  run.directory.create();
  run.cache_lock = std::make_unique<RunLock>(run.directory.path());
  if (!fresh) require_no_run(run.directory);
  run.directory.remove_stray_temporaries();
  run.directory.create_cache_folder();
}

/// Rejects a directory that has a run; a dry run, which writes nothing there, only warns.
void require_no_run_or_warn(const RunDirectory& directory, bool dry_run) {
  try {
    require_no_run(directory);
  } catch (const ConfigError& error) {
    if (!dry_run) throw;
    const Diagnostic& found = error.diagnostics().front();
    warn(fmt::format("{} {}; without --dry-run, {}", found.place.file, found.message, found.hint));
  }
}

}  // namespace

LoadedRun load_new_run(Config config, const RunOptions& options, ProcessGroup& group) {
  LoadedRun run{.directory = RunDirectory(config.train.run_dir), .config = std::move(config)};
  DataOptions& data = run.config.data;
  group.on_rank_0([&] {
    require_no_files(run.directory);
    if (!options.fresh) require_no_run_or_warn(run.directory, options.dry_run);
    require_creatable_folder(run.directory.path());
  });
  if (group.any_process(uses_cache(data)) && !options.dry_run) {
    group.on_rank_0([&] { prepare_cache_of_new_run(run, options.fresh); });
    data.training.cache_folder = run.directory.cache_folder();
  }
  InitialState initial =
      load_with_cache(data, group, [&] { return load_initial_state(run.config); });
  run.corpus = std::move(initial.corpus);
  run.pretrained = std::move(initial.model);
  complete_new_config(options.config.empty() ? "config" : options.config, run.corpus, run.config);
  return run;
}

void claim_directory(LoadedRun& run, bool fresh) {
  const bool has_cache = run.cache_lock != nullptr;
  run.cache_lock.reset();
  const auto old = fresh ? move_aside(run.directory) : std::nullopt;
  run.directory.create();
  run.directory.lock();
  // Checked again: another process may have created a run before the lock was taken.
  require_no_run(run.directory);
  if (!old || !has_cache) return;
  std::error_code ignored;  // if moving the cache fails, the new run rebuilds it when it is resumed
  std::filesystem::rename(old->cache_folder(), run.directory.cache_folder(), ignored);
}

// ---- A resumed run.

namespace {

void require_run(const RunDirectory& directory) {
  if (!directory.steps().empty()) return;
  std::error_code ignored;
  const bool is_folder = std::filesystem::is_directory(directory.path(), ignored);
  throw CheckpointError(
      fmt::format("{}: {}, expected the directory of a run", escaped(directory.path().string()),
                  is_folder ? "has no checkpoint to resume from" : "is not a directory"),
      is_folder
          ? fmt::format("name a run directory such as runs/copy, or start a run: {} train CONFIG",
                        program_name())
          : hint_for_missing_run(directory.path()));
}

ResumeRequest request_of(const RunOptions& options) {
  return {.config = options.config,
          .overrides = options.overrides,
          .allowed = options.allowed,
          .keeps_run_dir = !options.run.empty()};
}

/// The newest usable checkpoint. Rank 0 chooses it, because the other processes may still see an
/// older list of files on a network file system.
///
/// throws  CheckpointError without a usable checkpoint.
NewestCheckpoint newest_checkpoint(const RunDirectory& directory, ProcessGroup& group) {
  NewestCheckpoint newest;
  const std::uint64_t step = group.broadcast([&] {
    require_run(directory);
    newest = *read_newest_of_run(directory);
    return newest.step;
  });
  group.together([&] {
    if (group.is_rank_0()) return;
    newest.step = step;
    newest.path = directory.checkpoint_path(newest.step);
    newest.arrays = await_checkpoint_of_run(directory, newest.step, group.timeout());
  });
  return newest;
}

/// Rejects processes whose plan differs from the plan of rank 0: each process decides by its plan
/// whether steps are left to train.
void require_same_plan(ProcessGroup& group, const ResumePlan& plan) {
  group.require_equal(
      "checkpoint to resume",
      [&] {
        const std::string reason = reason_of_end(plan);
        return fmt::format("step {}{}{}", plan.checkpoint.step, reason.empty() ? "" : ": ", reason);
      },
      ExitCode::checkpoint);
}

std::string find_run_directory(const RunOptions& options) {
  if (!options.run.empty()) return options.run;
  return load_config(options.config, options.overrides).train.run_dir;
}

ResumePlan make_plan(const RunDirectory& directory, const ResumeRequest& request,
                     ProcessGroup& group) {
  ResumePlan plan = plan_resume(directory, newest_checkpoint(directory, group), request);
  require_same_plan(group, plan);
  return plan;
}

/// Locks the directory. Returns whether another process changed its checkpoints before the lock was
/// taken.
bool lock_directory(RunDirectory& directory, ProcessGroup& group) {
  bool has_other_steps = false;
  group.on_rank_0([&] {
    const auto before = directory.steps();
    directory.lock();
    has_other_steps = directory.steps() != before;
  });
  return group.any_process(has_other_steps);
}

void prepare_cache_of_resumed_run(DataOptions& data, RunDirectory& directory, bool read_only,
                                  ProcessGroup& group) {
  data.training.cache_is_read_only = read_only;
  data.training.cache_folder = directory.cache_folder();
  group.on_rank_0([&] {
    if (read_only) return;
    directory.remove_stray_temporaries();  // temporary files may be as large as the cache
    directory.create_cache_folder();
  });
}

/// Whether no step is left to train and the end of the run, such as its average, is complete. The
/// end may be incomplete because the process was killed after its last checkpoint. A dry run
/// ignores the end.
///
/// phase  phase of the run that rank 0 found before it locked the run
bool is_finished(const RunDirectory& directory, const ResumePlan& plan, RunPhase phase,
                 const RunOptions& options, ProcessGroup& group) {
  if (reason_of_end(plan).empty()) return false;
  const bool lacks_end =
      group.is_rank_0() && (lacks_final_average(directory, plan.config, plan.checkpoint.step) ||
                            (was_finished(plan) && phase != RunPhase::finished));
  return !group.any_process(lacks_end) || options.dry_run;
}

/// Prints why the run is finished.
void report_finished(const RunDirectory& directory, const ResumePlan& plan,
                     const RunOptions& options, const ProcessGroup& group) {
  for (const std::string& warning : warnings_of(plan)) warn(warning);
  for (const auto* changes : {&plan.changes.free, &plan.changes.allowed}) {
    for (const ConfigDifference& change : *changes) {
      // The reason below includes the steps. A dry run does not write the average.
      if (change.key == "train.steps" || change.key == "train.average_last") continue;
      warn(fmt::format("{} has no effect: no step is left to train", to_string(change)));
    }
  }
  if (options.quiet || !group.is_rank_0()) return;
  const std::uint64_t step = plan.checkpoint.step;
  std::string text =
      fmt::format("{} is finished: {}", escaped(directory.path().string()), reason_of_end(plan));
  if (has_unwanted_average(directory, plan.config, step)) {
    text += fmt::format("; train.average_last is 0, but commands may use {} until it is deleted",
                        escaped(directory.average_path().string()));
  }
  Progress progress(stdout, step, step, "",
                    options.json ? ProgressFormat::json : ProgressFormat::lines);
  progress.message(text);
  progress.end(static_cast<int>(ExitCode::done));
  flush_standard_output(progress.output_error());
}

/// Restores the saved state. Returns lines for the log.
std::vector<std::string> restore(LoadedRun& run, Trainer& trainer) {
  ResumePlan& plan = *run.resumed;
  trainer.resume(plan.checkpoint.arrays);
  std::vector<std::string> lines;
  for (const std::string& warning : warnings_of(plan)) {
    lines.push_back("warning: " + warning);
  }
  lines.push_back(fmt::format("resuming {} at step {} of {}", run.directory.path().string(),
                              format_count(trainer.step()), format_count(run.config.train.steps)));
  for (const ConfigDifference& change : plan.changes.free) {
    lines.push_back("changed " + to_string(change));
  }
  std::vector<std::string> events = run.data_changes;
  std::ranges::move(describe_effects(plan), std::back_inserter(events));
  for (const std::string& event : events) {
    lines.push_back("warning: " + event);
    trainer.add_to_history(event);
  }
  plan.checkpoint.arrays = ArrayStore();  // the arrays are as large as the model
  return lines;
}

}  // namespace

std::optional<LoadedRun> load_resumed_run(const RunOptions& options, ProcessGroup& group) {
  const ResumeRequest request = request_of(options);
  RunDirectory directory = find_run(find_run_directory(options));
  ResumePlan plan = make_plan(directory, request, group);
  const RunPhase phase =
      group.is_rank_0() ? read_run_state(directory.path()).phase : RunPhase::stopped;
  if (is_finished(directory, plan, phase, options, group)) {
    report_finished(directory, plan, options, group);
    return std::nullopt;
  }
  if (!options.dry_run && lock_directory(directory, group)) {
    plan = make_plan(directory, request, group);
  }
  DataOptions& data = plan.config.data;
  apply_process_settings(plan.config.train, saved_arithmetic(plan.checkpoint.arrays));
  if (group.any_process(uses_cache(data))) {
    prepare_cache_of_resumed_run(data, directory, options.dry_run, group);
  }
  ResumedCorpus loaded = load_with_cache(data, group, [&] {
    return load_same_corpus(plan.config, plan.checkpoint.arrays, options.allowed);
  });
  if (plan.config.train.epochs != 0) {
    resolve_epochs(plan.config, make_batch_schedule(loaded.corpus, plan.config).batches_per_epoch(),
                   plan.checkpoint.step, saved_position(plan.checkpoint.arrays));
    require_allowed_changes(plan, request);
    if (is_finished(directory, plan, phase, options, group)) {
      report_finished(directory, plan, options, group);
      return std::nullopt;
    }
  }
  require_validation_for_patience(plan.config, loaded.corpus);
  return LoadedRun{.directory = std::move(directory),
                   .config = plan.config,
                   .corpus = std::move(loaded.corpus),
                   .resumed = std::move(plan),
                   .data_changes = std::move(loaded.changes)};
}

// ---- The state of the trainer.

std::vector<std::string> load_state(LoadedRun& run, Trainer& trainer) {
  if (run.resumed) return restore(run, trainer);
  if (run.pretrained) return trainer.computer().initialize(*run.pretrained);
  return {};
}

}  // namespace tapestry
