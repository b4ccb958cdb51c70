#include "train/loop/resumed_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <string>
#include <system_error>
#include <vector>

#include "data/io/utf8.h"
#include "train/base/error.h"
#include "train/base/format.h"
#include "train/base/program.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/open_run.h"
#include "train/config/config.h"
#include "train/config/rules.h"
#include "train/loop/final_average.h"
#include "train/loop/new_run.h"
#include "train/loop/progress_output.h"
#include "train/system/machine.h"
#include "train/system/standard_streams.h"
#include "train/tasks/task_data.h"

namespace tapestry {
namespace {

void require_run(const RunDirectory& directory) {
  if (!directory.steps().empty()) return;
  std::error_code ignored;
  const bool is_folder = std::filesystem::is_directory(directory.path(), ignored);
  throw CheckpointError(
      fmt::format("{}: {}, expected the directory of a run", escaped(directory.path().string()),
                  is_folder ? "holds no checkpoint to resume from" : "is no directory"),
      fmt::format("name a run directory such as runs/copy, or start a run: {} train CONFIG",
                  program_name()));
}

ResumeRequest request_of(const RunOptions& options) {
  return {.config = options.config,
          .overrides = options.overrides,
          .allowed = options.allowed,
          .keeps_run_dir = !options.run.empty()};
}

/// The newest usable checkpoint that rank 0 finds: over a network file system, others may still see
/// an older list of files.
///
/// throws  CheckpointError without a usable checkpoint.
NewestCheckpoint newest_checkpoint(const RunDirectory& directory, ProcessGroup& group) {
  NewestCheckpoint newest;
  const std::string step = group.broadcast([&] {
    require_run(directory);
    newest = *read_newest_of_run(directory);
    return fmt::to_string(newest.step);
  });
  group.together([&] {
    if (group.is_rank_0()) return;
    newest.step = std::stoull(step);
    newest.path = directory.checkpoint_path(newest.step);
    newest.arrays = await_checkpoint_of_run(directory, newest.step, group.timeout());
  });
  return newest;
}

/// Rejects processes with another plan than rank 0: each decides by its plan whether there are
/// steps to train.
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

}  // namespace

ResumedRun::ResumedRun(const RunOptions& options, ProcessGroup& group)
    : request_(request_of(options)), directory_(find_run(find_run_directory(options))) {
  make_plan(group);
  is_finished_ = report_finished(options, group);
  if (is_finished_) return;
  if (!options.dry_run) lock_directory(group);
  apply_process_settings(plan_.config.train, saved_arithmetic(plan_.checkpoint.arrays));
  if (group.any_process(uses_cache(plan_.config.data))) prepare_cache(options.dry_run, group);
  data_ = load_with_cache(plan_.config.data, group, [&] {
    return load_same_corpus(plan_.config, plan_.checkpoint.arrays, options.allowed);
  });
  is_finished_ = resolve_length() && report_finished(options, group);
  if (is_finished_) return;
  require_validation_for_patience(plan_.config, data_.corpus);
}

void ResumedRun::make_plan(ProcessGroup& group) {
  plan_ = plan_resume(directory_, newest_checkpoint(directory_, group), request_);
  require_same_plan(group, plan_);
}

/// Locks the directory, and plans again if another process has written it since.
void ResumedRun::lock_directory(ProcessGroup& group) {
  bool has_other_steps = false;
  group.on_rank_0([&] {
    const auto before = directory_.steps();
    directory_.lock();
    has_other_steps = directory_.steps() != before;
  });
  if (group.any_process(has_other_steps)) make_plan(group);
}

void ResumedRun::prepare_cache(bool read_only, ProcessGroup& group) {
  DataOptions& data = plan_.config.data;
  data.training.cache_is_read_only = read_only;
  data.training.cache_folder = directory_.cache_folder();
  group.on_rank_0([&] {
    if (read_only) return;
    directory_.remove_stray_temporaries();  // they may be as large as the cache
    directory_.create_cache_folder();
  });
}

/// Resolves train.epochs, once the data are known. Returns whether there was something to resolve.
bool ResumedRun::resolve_length() {
  if (plan_.config.train.epochs == 0) return false;
  resolve_epochs(plan_.config, make_batch_schedule(data_.corpus, plan_.config).batches_per_epoch(),
                 plan_.checkpoint.step, saved_position(plan_.checkpoint.arrays));
  require_allowed_changes(plan_, request_);
  return true;
}

/// Prints why nothing is left to do, and returns whether that is so.
bool ResumedRun::report_finished(const RunOptions& options, ProcessGroup& group) const {
  const std::string reason = reason_of_end(plan_);
  if (reason.empty()) return false;
  const bool lacks_average = lacks_final_average(directory_, plan_.config, first_step());
  if (group.any_process(lacks_average) && !options.dry_run) return false;
  for (const std::string& warning : warnings_of_fallback(plan_)) warn(warning);
  if (options.quiet || !group.is_rank_0()) return true;
  std::string text = fmt::format("{} is finished: {}", escaped(directory_.path().string()), reason);
  if (has_unwanted_average(directory_, plan_.config, first_step())) {
    text += fmt::format("; train.average_last is 0, but commands may use {} until it is deleted",
                        escaped(directory_.average_path().string()));
  }
  const auto output = options.json ? make_json_output(stdout) : make_text_output(stdout);
  output->message(text);
  output->end(first_step(), static_cast<int>(ExitCode::done));
  flush_standard_output(output->error());
  return true;
}

std::vector<std::string> ResumedRun::restore(Trainer& trainer) {
  trainer.resume(plan_.checkpoint.arrays);
  std::vector<std::string> lines;
  for (const std::string& warning : warnings_of_fallback(plan_)) {
    lines.push_back("warning: " + warning);
  }
  lines.push_back(fmt::format("resuming {} at step {} of {}", directory_.path().string(),
                              format_count(trainer.step()),
                              format_count(plan_.config.train.steps)));
  for (const ConfigDifference& change : plan_.changes.taken) {
    lines.push_back("changed " + to_string(change));
  }
  std::vector<std::string> events = data_.changes;
  std::ranges::move(describe_effects(plan_), std::back_inserter(events));
  for (const std::string& event : events) {
    lines.push_back("warning: " + event);
    trainer.add_to_history(event);
  }
  plan_.checkpoint.arrays = ArrayStore();  // as large as the model: released before training
  return lines;
}

}  // namespace tapestry
