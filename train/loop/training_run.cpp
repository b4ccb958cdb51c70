#include "train/loop/training_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <new>
#include <optional>
#include <span>
#include <sstream>

#include "autograd/kernels/parallel.h"
#include "autograd/profiler.h"
#include "data/batch.h"
#include "data/example_file.h"
#include "data/io/durable_file.h"
#include "train/base/error.h"
#include "train/base/exit_code.h"
#include "train/base/format.h"
#include "train/base/program_name.h"
#include "train/checkpoint/open_run.h"
#include "train/config/config.h"
#include "train/config/domain.h"
#include "train/config/error.h"
#include "train/config/rules.h"
#include "train/loop/final_average.h"
#include "train/loop/memory_need.h"
#include "train/loop/run_description.h"
#include "train/loop/run_files.h"
#include "train/loop/step_time.h"
#include "train/models/model_summary.h"
#include "train/system/machine.h"
#include "train/system/memory.h"
#include "train/system/standard_streams.h"
#include "train/tasks/task.h"
#include "train/tasks/task_data.h"

namespace tapestry {
namespace {

using Clock = TimeLimit::Clock;

void report(const Profile& profile, Progress& progress) {
  std::istringstream table(to_string(profile));
  for (std::string line; std::getline(table, line);) progress.message(line);
}

RunEnd train(Trainer& trainer, const TrainingRun& run, const Interruptions& interruptions,
             Progress& progress) {
  if (!run.profile) return trainer.run(interruptions);
  const Profiler profiler;
  const RunEnd end = trainer.run(interruptions);
  report(profiler.profile(), progress);
  return end;
}

/// The same; an error is also written to the log of the run.
RunEnd train_and_log(Trainer& trainer, const TrainingRun& run, const Interruptions& interruptions,
                     Progress& progress) try {
  return train(trainer, run, interruptions, progress);
} catch (const std::bad_alloc&) {
  progress.log_error("the system has no more memory");
  throw;
} catch (const std::exception& error) {
  progress.log_error(error.what());
  throw;
}

int stopped(const Trainer& trainer, const std::string& by, const std::string& run_dir, int code,
            Progress& progress) {
  progress.message(
      fmt::format("stopped by {} and saved at step {}; resume with: {} train "
                  "--resume {}",
                  by, format_count(trainer.step()), program_name(), format_argument(run_dir)));
  return code;
}

/// Writes the complete config of the run, after its id. throws OutputError.
void write_config(const RunDirectory& directory, const Config& config, const std::string& run_id) {
  const std::string text = run_id_line(run_id) + dump_config(config);
  write_file_durably(directory.path() / "config.yaml", std::as_bytes(std::span(text)));
}

/// Warns during the run if other programs slow it down, unless it has too many threads anyway.
void watch_other_programs(Progress& progress) {
  const Cores cores = read_cores();
  const std::size_t threads = kernels::num_threads();
  const auto before = read_processor_time();
  if (!before || warning_about_cores(cores, threads)) return;
  const auto warning = [=]() -> std::optional<std::string> {
    const auto after = read_processor_time();
    if (!after) return std::nullopt;
    return warning_about_other_programs(*before, *after, cores.allowed, threads);
  };
  progress.message_later(std::chrono::seconds(6), warning);  // more than sure_interval
}

/// Announces a step that takes long, from the time of its largest batch.
void announce_long_step(Clock::duration largest_batch, const Config& config, Progress& progress) {
  constexpr double long_step = 30.0;  // seconds
  const double seconds = std::chrono::duration<double>(largest_batch).count() *
                         static_cast<double>(config.train.accumulate);
  if (seconds < long_step) return;
  progress.message(
      fmt::format("a step takes up to {}, all {} steps up to {}", duration_in_words(seconds),
                  format_count(config.train.steps),
                  duration_in_words(seconds * static_cast<double>(config.train.steps))));
}

/// Prints how much memory the run needs, and allocates the memory of its largest step, so that a
/// lack of memory is detected before training. throws kernels::OutOfMemory, kernels::Cancelled.
void prepare_memory(const Trainer& trainer, const Corpus& corpus, const AvailableMemory& available,
                    std::size_t processes, Progress& progress) {
  const Config& config = trainer.config();
  const std::vector<Batch> batches = largest_batches(corpus, config);
  const Batch& largest = batches.front();
  const std::string size = find_task(config).describe_size(largest);
  constexpr std::size_t long_sequence = 2048;  // a few rows of it may take seconds
  if (std::max(largest.source_length, largest.target_length) >= long_sequence) {
    progress.message(fmt::format("measuring memory and time of the largest step: {}", size));
  }
  MemoryNeed need = need_of_model(config, corpus, processes);
  need.step = estimate_step(trainer.model(), corpus, config);
  progress.message(to_line(need, size, available));
  if (const auto warning = warning_about_memory(need, available, config))
    progress.message(*warning);
  Clock::duration longest{0};
  for (const Batch& batch : batches) {
    const Clock::time_point started = Clock::now();
    warm_up(trainer.model(), batch, config);
    longest = std::max(longest, Clock::now() - started);
  }
  announce_long_step(longest, config, progress);
  if (const std::size_t threads = kernels::threads_at_work(); threads < kernels::num_threads()) {
    progress.message(fmt::format(
        "warning: threads: {} instead of {}, the system gives no more (ulimit -u, ulimit -v)",
        threads, kernels::num_threads()));
  }
}

/// Prints how the run ended and returns the exit code.
int report_end(RunEnd end, const Trainer& trainer, const TrainingRun& run,
               const RunSignals& signals, Progress& progress) {
  const std::string run_dir = run.directory.path().string();
  const TrainOptions& options = trainer.config().train;
  switch (end) {
    case RunEnd::signal:
      return stopped(trainer, fmt::format("signal {}", signals.stop()), run_dir,
                     signal_exit_base + signals.stop(), progress);
    case RunEnd::time:
      return stopped(trainer, fmt::format("train.max_time ({})", Duration::print(options.max_time)),
                     run_dir, static_cast<int>(ExitCode::out_of_time), progress);
    case RunEnd::last_step:
      return stopped(trainer, "--until", run_dir, static_cast<int>(ExitCode::done), progress);
    case RunEnd::finished:
      break;
  }
  const bool early = trainer.step() < options.steps;
  const bool has_held_out = !run.corpus.validation.empty() || !run.corpus.test.empty();
  progress.message(
      fmt::format("done: {} steps{}; next: {} {} {}", format_count(trainer.step()),
                  early ? fmt::format(", no new best in {} validations", options.patience) : "",
                  program_name(), has_held_out ? "evaluate" : "report", format_argument(run_dir)));
  return static_cast<int>(ExitCode::done);
}

/// Computes one step and prints how long the run takes. Returns the exit code.
/// throws  OutputError if that could not be printed; kernels::Cancelled.
int try_one_step(StepComputer& computer, const std::string& run_dir, Progress& progress) {
  const Config& config = computer.config();
  const std::size_t steps = config.train.steps - computer.step();
  const std::uint64_t number = computer.step() + 1;
  const StepTime step = time_step(computer);
  const double seconds = std::chrono::duration<double>(step.time).count();
  progress.message(fmt::format(
      "dry run: step {} took {:.3g} seconds ({} {}, loss {:.4f}); {} steps take about {}, besides "
      "validation and saving; nothing was written to {}",
      format_count(number), seconds, format_count(step.targets),
      find_task(config).words(config).targets, step.loss, format_count(steps),
      duration_in_words(seconds * static_cast<double>(steps)), run_dir));
  flush_standard_output(progress.output_error());
  return static_cast<int>(ExitCode::done);
}

/// Writes the report of the run; a failure causes a warning.
void write_run_report(const Trainer& trainer, const TrainingRun& run, const RunSignals& signals,
                      Progress& progress) {
  try {
    const kernels::CancellationScope cancellable(&signals.end_requested());
    run.write_report(trainer);
  } catch (const kernels::Cancelled&) {  // the run ends
  } catch (const std::bad_alloc&) {
    progress.message("warning: report not written: not enough memory");
  } catch (const std::exception& error) {
    progress.message(fmt::format("warning: report not written: {}", error.what()));
  }
}

/// Averages the last checkpoints of the finished run, if its config says so. Returns false if a
/// signal or the time limit ended that.
bool average_last_checkpoints(const Trainer& trainer, const TrainingRun& run,
                              const RunDirectory& directory, const RunSignals& signals,
                              Progress& progress) {
  bool cancelled = false;
  if (trainer.config().train.average_last == 0) return true;
  run.group.on_rank_0([&] {
    try {
      const kernels::CancellationScope cancellable(&signals.end_requested());
      write_final_average(directory, trainer.config(), run.corpus, trainer.step(), progress);
    } catch (const kernels::Cancelled&) {  // the run ends
      cancelled = true;
      progress.message("warning: the last checkpoints were not averaged: resume the run to do it");
    } catch (const std::bad_alloc&) {  // the run itself is complete
      progress.message(
          "warning: the last checkpoints were not averaged: not enough memory; resume the run to "
          "do it");
    } catch (const OutputError& error) {
      progress.message(
          fmt::format("warning: the last checkpoints were not averaged: {}; {}, then resume the "
                      "run to do it",
                      error.what(), error.hint()));
    }
  });
  return !cancelled;
}

/// A batch of the first training example.
Batch first_example(const TrainingRun& run) {
  return make_batch(run.corpus.training(), std::array<std::size_t, 1>{0},
                    batch_rules(run.config, run.corpus.target_vocabulary.size()));
}

/// Rejects processes that would not compute the same run.
void require_same_run(ProcessGroup& group, const TrainingRun& run, const StepComputer& computer) {
  group.require_equal("arithmetic", arithmetic, ExitCode::usage);
  group.require_equal(
      "config", [&] { return dump_config(with_process_settings(run.config, Config{})); },
      ExitCode::usage);
  group.require_equal(
      "train.bucket_size", [&] { return fmt::to_string(run.config.train.bucket_size); },
      ExitCode::usage);
  group.require_equal(
      "data", [&] { return fmt::format("fingerprint {:016x}", run.corpus.fingerprint); },
      ExitCode::data);
  group.require_equal(
      "state", [&] { return computer.state_text(); }, ExitCode::checkpoint);
}

/// Prints why a dry run has ended during its step or before it, and returns the exit code: of the
/// signal that any process has received, or of the time limit.
int code_of_interruption(ProcessGroup& group, const RunSignals& signals, Progress& progress) {
  const auto signals_of_all = group.all_gather([&] { return fmt::to_string(signals.stop()); });
  const auto first = std::ranges::find_if(signals_of_all, [](auto& text) { return text != "0"; });
  if (first == signals_of_all.end()) {
    progress.message("stopped by the time limit, train.max_time; nothing was written");
    return static_cast<int>(ExitCode::out_of_time);
  }
  progress.message(fmt::format("stopped by signal {}; nothing was written", *first));
  return signal_exit_base + std::stoi(*first);
}

/// Claims the run directory, writes the config into it and begins its log.
void begin_directory(const TrainingRun& run, RunDirectory& directory, const Trainer& trainer,
                     Progress& progress) {
  run.claim_directory(directory);
  const auto strays = directory.remove_stray_temporaries();
  write_config(directory, run.config, trainer.run_id());
  directory.probe(trainer.checkpoint_bytes(), missing_files(directory.path(), run.config.train));
  progress.log_to((directory.path() / "train.log").string());
  for (const std::string& problem : strays.problems) {
    progress.message("warning: temporary file of a crash not deleted: " + problem);
  }
}

}  // namespace

void require_work_for_all(std::size_t processes, const Config& config) {
  if (config.train.accumulate >= processes) return;
  throw ConfigError(
      {{.place = {.file = "train.accumulate"},
        .message = fmt::format("found {}, expected at least {}, the number of processes, which "
                               "divide the batches of a step",
                               config.train.accumulate, processes),
        .hint = fmt::format("start fewer processes, or set train.accumulate={0} and divide "
                            "train.batch_size by {0}",
                            processes)}});
}

namespace {

/// Trains the run and reports it to `progress`, all but its end. Returns the exit code.
int train_run(const TrainingRun& run, Progress& progress) {
  ProcessGroup& group = run.group;
  const std::string run_dir = run.directory.path().string();
  const AvailableMemory available = read_available_memory();
  require_memory_for_model(run.config, run.corpus, available, group.size());
  RunDirectory directory = run.directory;
  Trainer trainer(run.config, run.corpus, directory, progress, group);
  const std::vector<std::string> messages = run.load_state(trainer);
  try_network(run.config, trainer.model(), first_example(run));

  require_same_run(group, run, trainer.computer());

  RunSignals signals(!run.dry_run);
  if (!run.dry_run) {
    group.on_rank_0([&] { begin_directory(run, directory, trainer, progress); });
  }
  progress.start({.run_dir = run_dir,
                  .kind = run.config.model_kind,
                  .first_step = trainer.step(),
                  .total_steps = run.config.train.steps,
                  .parameters = trainer.model().parameters.num_values()});
  for (const std::string& message : messages) progress.message(message);
  for (const std::string& line : describe_run(trainer.computer(), run_dir, group.size())) {
    progress.message(line);
  }
  const Interruptions interruptions{.signals = &signals,
                                    .time = TimeLimit(run.started, run.config.train.max_time),
                                    .last_step = run.last_step};
  if (const auto time = interruptions.time.last_call()) signals.end_at(*time);
  try {
    const kernels::CancellationScope cancellable(&signals.end_requested());
    group.together([&] { prepare_memory(trainer, run.corpus, available, group.size(), progress); });
    if (run.dry_run) return try_one_step(trainer.computer(), run_dir, progress);
  } catch (const kernels::Cancelled&) {  // the trainer finds the reason and ends
    if (run.dry_run) return code_of_interruption(group, signals, progress);
  }
  if (group.is_rank_0()) {
    progress.start_timing();
    trainer.record_to(directory.path());
    trainer.report_with([&] { write_run_report(trainer, run, signals, progress); });
    watch_other_programs(progress);
  }
  trainer.average_with(
      [&] { return average_last_checkpoints(trainer, run, directory, signals, progress); });
  const RunEnd end = train_and_log(trainer, run, interruptions, progress);
  return report_end(end, trainer, run, signals, progress);
}

}  // namespace

int run_training(const TrainingRun& run) {
  ProcessGroup& group = run.group;
  require_work_for_all(group.size(), run.config);
  Progress progress(run.quiet || !group.is_rank_0() ? nullptr : stdout, run.first_step,
                    run.config.train.steps, find_task(run.config).words(run.config).targets,
                    run.format);
  if (run.quiet && group.is_rank_0()) progress.warn_on_standard_error();
  try {
    const int code = train_run(run, progress);
    progress.end(code);
    return code;
  } catch (...) {
    progress.end(static_cast<int>(to_exit_code(std::current_exception())));
    throw;
  }
}

}  // namespace tapestry
