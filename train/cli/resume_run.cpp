#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "data/io/utf8.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/resume_policy.h"
#include "train/checkpoint/run_identity.h"
#include "train/cli/new_run.h"
#include "train/cli/train.h"
#include "train/config/config.h"
#include "train/config/error.h"
#include "train/config/percentages.h"
#include "train/error.h"
#include "train/final_average.h"
#include "train/format.h"
#include "train/models/data_changes.h"
#include "train/output/progress_output.h"
#include "train/parallel/equal_processes.h"
#include "train/platform/machine.h"
#include "train/platform/program_name.h"
#include "train/platform/standard_streams.h"
#include "train/process_settings.h"
#include "train/run_length.h"
#include "train/storage/run_directory.h"
#include "train/tasks/task.h"

namespace tapestry::train_cli {
namespace {

/// The checkpoint to resume from and the config to resume with.
struct ResumePlan {
  NewestCheckpoint checkpoint;
  Config before;
  Config config;
  ConfigChanges changes;
};

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

bool is_allowed(const TrainArguments& arguments, const std::string& key) {
  return std::ranges::find(arguments.allowed, key) != arguments.allowed.end();
}

/// The config to resume with: a config file, or the saved config with overrides.
Config wanted_config(const TrainArguments& arguments, const Config& before) {
  if (arguments.config.empty()) {
    // A run directory that was renamed may have any name, also one that a config cannot hold.
    Config stored = before;
    stored.train.run_dir.clear();
    Config config =
        parse_config(dump_config(stored), "config of the checkpoint", arguments.overrides);
    if (config.train.run_dir.empty()) config.train.run_dir = before.train.run_dir;
    return config;
  }
  Config config = load_config(arguments.config, arguments.overrides);
  if (!arguments.run.empty()) config.train.run_dir = before.train.run_dir;
  keep_resolved_percentages(config, before, arguments.allowed);
  // The default decay_steps follows train.steps; it was fixed when the run began.
  const bool new_decay =
      config.schedule.kind == ScheduleKind::cosine && is_allowed(arguments, "schedule.decay_steps");
  if (config.schedule.decay_steps == 0 && !new_decay) {
    config.schedule.decay_steps = before.schedule.decay_steps;
  }
  return config;
}

/// throws  ConfigError if a run is given more steps than its decay has, which would have a learning
///         rate of 0.
void require_longer_decay(const std::string& run, const Config& before, const Config& config) {
  const ScheduleOptions& schedule = config.schedule;
  const std::size_t steps = config.train.steps;
  const std::size_t end = schedule.decay_steps;  // 0: train.steps
  const bool ends_at_0 = schedule.kind == ScheduleKind::cosine && schedule.min_learning_rate == 0.0;
  const bool new_decay =
      schedule.kind != before.schedule.kind || end != before.schedule.decay_steps;
  if (!ends_at_0 || new_decay || end == 0 || end >= steps || steps <= before.train.steps) return;
  throw ConfigError(
      {{.place = {.file = run},
        .message = fmt::format("train.steps is raised from {} to {}, but the learning rate decays "
                               "to 0 until step {} (schedule.decay_steps) and would stay 0",
                               before.train.steps, steps, end),
        .hint = fmt::format("give the decay a new end, with schedule.decay_steps={} --allow-change "
                            "schedule.decay_steps, or a minimum above 0, with "
                            "schedule.min_learning_rate=RATE --allow-change "
                            "schedule.min_learning_rate",
                            steps)}});
}

/// Compares the config to resume with. If train.epochs is not resolved yet, the number of steps is
/// taken to be unchanged.
void compare(ResumePlan& plan, const TrainArguments& arguments) {
  const Config& before = plan.before;
  Config config = plan.config;
  if (config.train.epochs != 0) config.train.steps = before.train.steps;
  config.train.epochs = 0;
  const bool follows_steps =
      config.schedule.kind == ScheduleKind::cosine && config.schedule.decay_steps == 0;
  if (follows_steps) config.schedule.decay_steps = config.train.steps;
  Config process = config;
  process.train.run_dir = before.train.run_dir;
  plan.changes = sort_changes(before.train.run_dir,
                              compare_configs(with_process_settings(before, process), config),
                              arguments.allowed);
  require_longer_decay(before.train.run_dir, before, config);
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
    newest.snapshot = await_checkpoint_of_run(directory, newest.step, group.timeout());
  });
  return newest;
}

ResumePlan make_plan(const RunDirectory& directory, const TrainArguments& arguments,
                     ProcessGroup& group) {
  ResumePlan plan{
      .checkpoint = newest_checkpoint(directory, group), .before = {}, .config = {}, .changes = {}};
  plan.before = saved_config(plan.checkpoint.snapshot);
  plan.before.train.run_dir = directory.path().string();
  plan.config = wanted_config(arguments, plan.before);
  compare(plan, arguments);
  return plan;
}

/// Resolves train.epochs, once the data are known. Returns whether there was something to resolve.
bool resolve_length(ResumePlan& plan, const TrainArguments& arguments, const Corpus& corpus) {
  if (plan.config.train.epochs == 0) return false;
  resolve_epochs(plan.config, make_batch_schedule(corpus, plan.config).batches_per_epoch(),
                 plan.checkpoint.step, saved_position(plan.checkpoint.snapshot));
  compare(plan, arguments);
  return true;
}

/// Why no steps are left to train, such as "12 of 12 steps"; empty if some are left.
std::string reason_of_end(const ResumePlan& plan) {
  const TrainOptions& options = plan.config.train;
  if (has_pending_validation(plan.checkpoint.snapshot) || options.epochs != 0) return "";
  if (plan.checkpoint.step >= options.steps) {
    const std::string done = format_count(plan.checkpoint.step);
    const std::string steps = format_count(options.steps);
    return plan.checkpoint.step == options.steps
               ? fmt::format("{} of {} steps; give more with train.steps=N", done, steps)
               : fmt::format(
                     "it has done {} steps, and train.steps is {}; give more with "
                     "train.steps=N",
                     done, steps);
  }
  const std::uint64_t without_best = validations_since_best(plan.checkpoint.snapshot);
  if (options.patience > 0 && without_best >= options.patience) {
    return fmt::format("{} validations without improvement; to continue, raise train.patience=N",
                       without_best);
  }
  return "";
}

/// The steps that config.yaml of the run has, which its newest process wrote; nullopt if it cannot
/// be read.
std::optional<std::size_t> steps_in_directory(const std::string& run_dir) try {
  return load_config((std::filesystem::path(run_dir) / "config.yaml").string()).train.steps;
} catch (const ConfigError&) {
  return std::nullopt;
}

/// Warnings about newer checkpoints that were skipped.
std::vector<std::string> warnings_of_fallback(const ResumePlan& plan) {
  std::vector<std::string> warnings;
  for (const auto& rejected : plan.checkpoint.rejected) {
    warnings.push_back(fmt::format("{}; an older checkpoint is used", rejected.reason));
  }
  if (warnings.empty() || plan.config.train.epochs != 0) return warnings;
  const std::size_t steps = plan.config.train.steps;
  const auto latest = steps_in_directory(plan.before.train.run_dir);
  if (latest && *latest != steps && steps == plan.before.train.steps) {
    warnings.push_back(
        fmt::format("train.steps is {}, as in the older checkpoint, and no longer {}; to have as "
                    "many again, add train.steps={}",
                    steps, *latest, *latest));
  }
  return warnings;
}

/// Resumes the trainer and returns lines for the log. Changes that affect the results are also
/// added to the history.
std::vector<std::string> resume(Trainer& trainer, const ResumePlan& plan, const ResumedCorpus& data,
                                const std::string& run_dir) {
  const Snapshot& snapshot = plan.checkpoint.snapshot;
  trainer.resume(snapshot);
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
  for (const ConfigDifference& change : plan.changes.allowed) {
    events.push_back("changed " + to_string(change));
  }
  if (!continues_state(plan.before.optimizer, plan.config.optimizer)) {
    events.emplace_back("the state of the optimizer starts anew");
  }
  if (has_other_batches(plan.before, plan.config)) {
    events.emplace_back("continues with the first batch of an epoch");
  }
  const std::string before = saved_arithmetic(snapshot);
  if (!before.empty() && before != arithmetic()) {
    events.push_back(
        fmt::format("changed arithmetic: {} -> {}; results will differ from a run "
                    "without the change",
                    before, arithmetic()));
  }
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

/// Refuses processes with another plan than rank 0: each decides by its plan whether there are
/// steps to train.
void require_same_plan(ProcessGroup& group, const ResumePlan& plan) {
  const std::string reason = reason_of_end(plan);
  require_equal_processes(group, {{.what = "checkpoint to resume",
                                   .text = fmt::format("step {}{}{}", plan.checkpoint.step,
                                                       reason.empty() ? "" : ": ", reason),
                                   .code = ExitCode::checkpoint}});
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
  apply_process_settings(plan.config.train, saved_arithmetic(plan.checkpoint.snapshot));
  if (group.any_process(uses_cache(plan.config.data))) {
    DataOptions& data = plan.config.data;
    data.cache_is_read_only = arguments.dry_run;
    data.cache_folder = directory.cache_folder();
    group.on_rank_0([&] {
      if (arguments.dry_run) return;
      directory.remove_stray_temporaries();  // they may be as large as the cache
      directory.create_cache_folder();
    });
  }
  const ResumedCorpus data = load_with_cache(plan.config.data, group, [&] {
    return load_same_corpus(plan.config, plan.checkpoint.snapshot, arguments.allowed);
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
    plan.checkpoint.snapshot = Snapshot();  // as large as the model: released before training
    return lines;
  };
  return run_training(run);
}

}  // namespace tapestry::train_cli
