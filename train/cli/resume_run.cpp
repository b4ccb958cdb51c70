#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "data/io/utf8.h"
#include "train/base/error.h"
#include "train/base/format.h"
#include "train/base/program_name.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/open_run.h"
#include "train/checkpoint/resume.h"
#include "train/checkpoint/run_directory.h"
#include "train/cli/new_run.h"
#include "train/cli/train.h"
#include "train/config/config.h"
#include "train/config/error.h"
#include "train/config/process_settings.h"
#include "train/config/rules.h"
#include "train/loop/final_average.h"
#include "train/loop/progress_output.h"
#include "train/models/data_changes.h"
#include "train/system/machine.h"
#include "train/system/standard_streams.h"
#include "train/tasks/task.h"
#include "train/tasks/task_data.h"

namespace tapestry::train_cli {
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

ResumeRequest request_of(const TrainArguments& arguments) {
  return {.config = arguments.config,
          .overrides = arguments.overrides,
          .allowed = arguments.allowed,
          .keeps_run_dir = !arguments.run.empty()};
}

/// The newest usable checkpoint that rank 0 finds: over a network file system, others may still see
/// an older list of files.
///
/// throws  CheckpointError if there is none.
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

ResumePlan make_plan(const RunDirectory& directory, const TrainArguments& arguments,
                     ProcessGroup& group) {
  return plan_resume(directory, newest_checkpoint(directory, group), request_of(arguments));
}

/// Resolves train.epochs, once the data are known. Returns whether there was something to resolve.
bool resolve_length(ResumePlan& plan, const TrainArguments& arguments, const Corpus& corpus) {
  if (plan.config.train.epochs == 0) return false;
  resolve_epochs(plan.config, make_batch_schedule(corpus, plan.config).batches_per_epoch(),
                 plan.checkpoint.step, saved_position(plan.checkpoint.arrays));
  require_allowed_changes(plan, request_of(arguments));
  return true;
}

/// Resumes the trainer and returns lines for the log. Changes that affect the results are also
/// added to the history.
std::vector<std::string> resume(Trainer& trainer, const ResumePlan& plan, const ResumedCorpus& data,
                                const std::string& run_dir) {
  trainer.resume(plan.checkpoint.arrays);
  std::vector<std::string> lines;
  for (const std::string& warning : warnings_of_fallback(plan)) {
    lines.push_back("warning: " + warning);
  }
  lines.push_back(fmt::format("resuming {} at step {} of {}", run_dir, format_count(trainer.step()),
                              format_count(plan.config.train.steps)));
  for (const ConfigDifference& change : plan.changes.taken) {
    lines.push_back("changed " + to_string(change));
  }
  std::vector<std::string> events = data.changes;
  std::ranges::move(describe_effects(plan), std::back_inserter(events));
  for (const std::string& event : events) {
    lines.push_back("warning: " + event);
    trainer.note(event);
  }
  return lines;
}

/// Prints why nothing is left to do, and returns whether that is so.
bool report_finished(const RunDirectory& directory, const ResumePlan& plan,
                     const TrainArguments& arguments, ProcessGroup& group) {
  const std::string reason = reason_of_end(plan);
  if (reason.empty()) return false;
  const bool lacks_average = lacks_final_average(directory, plan.config, plan.checkpoint.step);
  if (group.any_process(lacks_average) && !arguments.dry_run) return false;
  for (const std::string& warning : warnings_of_fallback(plan)) warn(warning);
  if (arguments.quiet) return true;
  std::string text = fmt::format("{} is finished: {}", escaped(directory.path().string()), reason);
  if (has_unwanted_average(directory, plan.config, plan.checkpoint.step)) {
    text += fmt::format("; train.average_last is 0, but commands may use {} until it is deleted",
                        escaped(directory.average_path().string()));
  }
  const auto output = arguments.json ? make_json_output(stdout) : make_text_output(stdout);
  output->message(text);
  output->end(plan.checkpoint.step, static_cast<int>(ExitCode::done));
  flush_standard_output(output->error());
  return true;
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

std::string find_run_directory(const TrainArguments& arguments) {
  if (!arguments.run.empty()) return arguments.run;
  return load_config(arguments.config, arguments.overrides).train.run_dir;
}

}  // namespace

int resume_run(const TrainArguments& arguments, TimeLimit::Clock::time_point started,
               ProcessGroup& group) {
  RunDirectory directory = find_run(find_run_directory(arguments));
  ResumePlan plan = make_plan(directory, arguments, group);
  require_same_plan(group, plan);
  if (report_finished(directory, plan, arguments, group)) return static_cast<int>(ExitCode::done);
  if (!arguments.dry_run) {
    bool has_other_steps = false;
    group.on_rank_0([&] {
      const auto before = directory.steps();
      directory.lock();
      has_other_steps = directory.steps() != before;
    });
    if (group.any_process(has_other_steps)) {
      plan = make_plan(directory, arguments, group);
      require_same_plan(group, plan);
    }
  }
  apply_process_settings(plan.config.train, saved_arithmetic(plan.checkpoint.arrays));
  if (group.any_process(uses_cache(plan.config.data))) {
    DataOptions& data = plan.config.data;
    data.training.cache_is_read_only = arguments.dry_run;
    data.training.cache_folder = directory.cache_folder();
    group.on_rank_0([&] {
      if (arguments.dry_run) return;
      directory.remove_stray_temporaries();  // they may be as large as the cache
      directory.create_cache_folder();
    });
  }
  const ResumedCorpus data = load_with_cache(plan.config.data, group, [&] {
    return load_same_corpus(plan.config, plan.checkpoint.arrays, arguments.allowed);
  });
  const bool was_unknown = resolve_length(plan, arguments, data.corpus);
  if (was_unknown && report_finished(directory, plan, arguments, group)) {
    return static_cast<int>(ExitCode::done);
  }
  require_validation_for_patience(plan.config, data.corpus);
  TrainingRun run =
      make_training_run(arguments, plan.config, data.corpus, directory, started, group);
  run.first_step = plan.checkpoint.step;
  run.load_state = [&](Trainer& trainer) {
    auto lines = resume(trainer, plan, data, directory.path().string());
    plan.checkpoint.arrays = ArrayStore();  // as large as the model: released before training
    return lines;
  };
  return run_training(run);
}

}  // namespace tapestry::train_cli
