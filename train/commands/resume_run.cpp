#include "train/commands/resume_run.h"

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "autograd/kernels/parallel.h"
#include "train/checkpoint.h"
#include "train/commands/run_to_the_end.h"
#include "train/commands/same_corpus.h"
#include "train/config/listing.h"
#include "train/error.h"
#include "train/exit_code.h"
#include "train/format.h"
#include "train/memory_need.h"
#include "train/objective.h"
#include "train/resume_policy.h"
#include "train/storage/run_lock.h"
#include "train/system/machine.h"

namespace tapestry {
namespace {

/// What to go on with.
struct Plan {
  NewestCheckpoint checkpoint;
  Config config;
  ConfigChanges changes;
};

void require_run(const RunDirectory& directory) {
  if (!directory.steps().empty()) return;
  std::error_code ignored;
  const bool is_folder = std::filesystem::is_directory(directory.path(), ignored);
  throw CheckpointError(
      fmt::format("{}: {}, expected the directory of a run", directory.path().string(),
                  is_folder ? "holds no checkpoint to resume from" : "is no directory"),
      "name a run directory such as runs/copy, or start a run: tapestry train CONFIG");
}

/// The config that the user gives, if it is one: a file, or else keys to change.
Config wanted_config(const TrainArguments& arguments, const Config& before) {
  if (arguments.config.empty()) {
    return parse_config(dump_config(before), "config of the checkpoint", arguments.overrides);
  }
  Config config = load_config(arguments.config, arguments.overrides);
  if (!arguments.run.empty()) config.train.run_dir = arguments.run;
  // A decay that follows train.steps was tied down when the run began.
  if (config.schedule.decay_steps == 0) config.schedule.decay_steps = before.schedule.decay_steps;
  return config;
}

Plan make_plan(const RunDirectory& directory, const TrainArguments& arguments) {
  Plan plan{.checkpoint = *directory.read_newest(), .config = {}, .changes = {}};
  const std::string run = directory.path().string();
  Config before = config_of(plan.checkpoint.snapshot);
  before.train.run_dir = run;
  plan.config = wanted_config(arguments, before);
  TrainOptions process = plan.config.train;
  process.run_dir = run;
  plan.changes = sort_changes(
      run, compare_configs(with_process_settings(before, process), plan.config), arguments.allowed);
  return plan;
}

/// "12 of 12 steps", or why else nothing is left to do; empty if something is.
std::string reason_of_end(const Plan& plan) {
  const TrainOptions& options = plan.config.train;
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
    return fmt::format("{} validations without a new best; give more with train.patience=N",
                       without_best);
  }
  return "";
}

void tell_changes(const Plan& plan, const ResumedCorpus& data, Trainer& trainer,
                  Progress& progress) {
  for (const ConfigDifference& change : plan.changes.taken) {
    progress.message("changed " + to_string(change));
  }
  std::vector<std::string> events = data.changes;
  for (const ConfigDifference& change : plan.changes.allowed) {
    events.push_back("changed " + to_string(change));
  }
  const std::string then = arithmetic_of(plan.checkpoint.snapshot);
  if (!then.empty() && then != arithmetic()) {
    events.push_back(
        fmt::format("changed arithmetic: {} -> {}; the last bits will differ from "
                    "those of a run without the change",
                    then, arithmetic()));
  }
  for (const std::string& event : events) {
    progress.message("warning: " + event);
    trainer.note(event);
  }
}

int go_on(const RunDirectory& listed, const TrainArguments& arguments, Plan plan,
          TimeLimit::Clock::time_point started) {
  RunDirectory directory = listed;
  const std::string run = directory.path().string();
  kernels::set_num_threads(plan.config.train.threads);
  const ResumedCorpus data =
      load_same_corpus(plan.config, plan.checkpoint.snapshot, arguments.allowed);
  const AvailableMemory available = read_available_memory();
  require_memory_for_model(plan.config, data.corpus, available);
  Progress progress(stdout, plan.checkpoint.step, plan.config.train.steps,
                    words_for_targets(plan.config));
  Trainer trainer(plan.config, data.corpus, directory, progress);
  trainer.resume(plan.checkpoint.snapshot);

  RunSignals signals;
  directory.remove_stray_temporaries();
  write_config(directory, plan.config);
  directory.probe(trainer.checkpoint_bytes());
  progress.log_to((directory.path() / "train.log").string());
  for (const auto& rejected : plan.checkpoint.rejected) {
    progress.message(fmt::format("warning: {}; an older checkpoint is used", rejected.reason));
  }
  progress.message(fmt::format("resuming {} at step {} of {}", run, format_count(trainer.step()),
                               format_count(plan.config.train.steps)));
  tell_changes(plan, data, trainer, progress);
  plan.checkpoint.snapshot = Snapshot();  // as large as the model: not to be kept for the whole run
  describe(trainer, data.corpus, run, progress);
  prepare_memory(trainer, data.corpus, available, progress);
  return run_to_the_end(trainer, run,
                        {.started = started, .signals = signals, .profiled = arguments.profile},
                        progress);
}

std::string run_directory_of(const TrainArguments& arguments) {
  if (!arguments.run.empty()) return arguments.run;
  return load_config(arguments.config, arguments.overrides).train.run_dir;
}

}  // namespace

int resume_run(const TrainArguments& arguments, TimeLimit::Clock::time_point started) {
  const RunDirectory directory(run_directory_of(arguments));
  require_run(directory);
  Plan plan = make_plan(directory, arguments);
  if (const std::string reason = reason_of_end(plan); !reason.empty()) {
    fmt::print("{} is finished: {}\n", directory.path().string(), reason);
    return static_cast<int>(ExitCode::done);
  }
  const auto before = directory.steps();
  const RunLock lock(directory.path());
  if (directory.steps() != before) plan = make_plan(directory, arguments);
  return go_on(directory, arguments, std::move(plan), started);
}

}  // namespace tapestry
