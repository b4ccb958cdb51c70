// SPDX-License-Identifier: BSD-3-Clause
#include "train/loop/training_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <new>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>

#include "autograd/kernels/parallel.h"
#include "autograd/profiler.h"
#include "data/batch.h"
#include "data/io/durable_file.h"
#include "data/io/memory.h"
#include "train/base/error.h"
#include "train/base/format.h"
#include "train/base/program.h"
#include "train/checkpoint/arithmetic.h"
#include "train/checkpoint/run_id.h"
#include "train/config/config.h"
#include "train/config/domain.h"
#include "train/config/load.h"
#include "train/loop/loaded_run.h"
#include "train/loop/memory_need.h"
#include "train/loop/new_config.h"
#include "train/loop/run_description.h"
#include "train/loop/step_time.h"
#include "train/loop/trainer.h"
#include "train/parallel/process_group.h"
#include "train/recording/event_log.h"
#include "train/system/cores.h"
#include "train/system/standard_streams.h"
#include "train/tasks/task.h"
#include "train/tasks/task_data.h"

namespace tapestry {
namespace {

using Clock = TimeLimit::Clock;

std::string path_of(const LoadedRun& run) { return run.directory.path().string(); }

// ---- Before training.

/// Runs the network on the first training example.
void try_model(const LoadedRun& run, const Model& model) {
  try_network(run.config, model,
              make_batch(run.corpus.training(), std::array<std::size_t, 1>{0},
                         batch_rules(run.config, run.corpus.target_vocabulary.size())));
}

/// Rejects processes that would not compute the same run.
void require_same_run(const LoadedRun& run, const StepComputer& computer, ProcessGroup& group) {
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

/// Writes the id of the run and its complete config. throws OutputError.
void write_config(const RunDirectory& directory, Config config, const std::string& run_id) {
  // A renamed run directory may have a name that a config cannot contain.
  config.train.run_dir = escaped(config.train.run_dir);
  const std::string text = run_id_line(run_id) + dump_config(config);
  write_file_durably(directory.path() / "config.yaml", text);
}

/// The number of missing files that a run creates up to its first checkpoint, without the
/// checkpoint. The temporary files of metrics.csv and of the checkpoint are renamed and need no
/// additional inode. Files that only some runs write, or that are written later, are not counted,
/// so that every run that could be saved is accepted.
std::uint64_t missing_files(const std::filesystem::path& run_directory) {
  constexpr std::array files{"train.log", events_file_name, "metrics.csv"};
  return static_cast<std::uint64_t>(std::ranges::count_if(files, [&](const char* file) {
    std::error_code ignored;
    return !std::filesystem::exists(run_directory / file, ignored);
  }));
}

/// Claims the run directory, writes the config into it and begins its log.
void open_directory(LoadedRun& run, bool fresh, const Trainer& trainer, Progress& progress) {
  if (!run.resumed) claim_directory(run, fresh);
  RunDirectory& directory = run.directory;
  const auto strays = directory.remove_stray_temporaries();
  write_config(directory, run.config, trainer.run_id());
  directory.probe(trainer.checkpoint_bytes(), missing_files(directory.path()));
  progress.log_to((directory.path() / "train.log").string());
  for (const std::string& problem : strays.problems) {
    progress.message("warning: temporary file of a crash not deleted: " + problem);
  }
}

/// Prints the lines of load_state() and a description of the run.
void describe(const LoadedRun& run, Trainer& trainer, const std::vector<std::string>& loaded,
              std::size_t processes, Progress& progress) {
  progress.start({.run_dir = path_of(run),
                  .kind = run.config.model_kind,
                  .first_step = trainer.step(),
                  .total_steps = run.config.train.steps,
                  .parameters = trainer.model().parameters.num_values()});
  for (const std::string& line : loaded) progress.message(line);
  for (const std::string& line : describe_run(trainer.computer(), path_of(run), processes)) {
    progress.message(line);
  }
}

/// Prints the duration of a step if it is long.
///
/// batch_time  duration of the largest batch
void announce_long_step(Clock::duration batch_time, const Config& config, Progress& progress) {
  constexpr double long_step = 30.0;  // in seconds
  const double seconds = std::chrono::duration<double>(batch_time).count() *
                         static_cast<double>(config.train.accumulate);
  if (seconds < long_step) return;
  progress.message(
      fmt::format("a step takes up to {}, all {} steps up to {}", duration_in_words(seconds),
                  format_count(config.train.steps),
                  duration_in_words(seconds * static_cast<double>(config.train.steps))));
}

/// Prints the memory need of the run, and allocates the memory of its largest step, so that running
/// out of memory is detected before training. throws MemoryError, kernels::OutOfMemory,
/// kernels::Cancelled.
void prepare_memory(const Trainer& trainer, const Corpus& corpus, const AvailableMemory& available,
                    std::size_t processes, Progress& progress) {
  const Config& config = trainer.config();
  const std::vector<Batch> batches = largest_batches(corpus, config);
  const Batch& largest = batches.front();
  const std::string size = find_task(config).describe_size(largest);
  constexpr std::size_t long_sequence = 2048;  // a few rows of this length may take seconds
  if (std::max(largest.source_length, largest.target_length) >= long_sequence) {
    progress.message(fmt::format("measuring memory and time of the largest step: {}", size));
  }
  MemoryNeed need = need_of_model(config, corpus, processes);
  need.step = estimate_step(trainer.model(), corpus, config);
  progress.message(to_line(need, size, available));
  if (const auto warning = warning_about_memory(need, available, config))
    progress.message(*warning);
  require_memory_for_step(need, available, config);
  Clock::duration max_time{0};
  for (const Batch& batch : batches) {
    const Clock::time_point started = Clock::now();
    warm_up(trainer.model(), batch, config);
    max_time = std::max(max_time, Clock::now() - started);
  }
  announce_long_step(max_time, config, progress);
  if (const std::size_t threads = kernels::threads_at_work(); threads < kernels::num_threads()) {
    progress.message(
        fmt::format("warning: threads: {} instead of {}, no more threads could be started (ulimit "
                    "-u, ulimit -v)",
                    threads, kernels::num_threads()));
  }
}

// ---- A dry run.

/// Computes one step and prints how long the run takes. Returns the exit code.
/// throws  OutputError if the result could not be printed; kernels::Cancelled.
int try_one_step(const LoadedRun& run, StepComputer& computer, Progress& progress) {
  const Config& config = computer.config();
  const std::size_t steps = config.train.steps - computer.step();
  const std::uint64_t number = computer.step() + 1;
  const StepTime step = time_step(computer);
  const double seconds = std::chrono::duration<double>(step.time).count();
  progress.message(fmt::format(
      "dry run: step {} took {:.3g} seconds ({} {}, loss {:.4f}); {} steps take about {}, without "
      "validation and saving; nothing was written to {}",
      format_count(number), seconds, format_count(step.targets),
      find_task(config).words(config).targets, step.loss, format_count(steps),
      duration_in_words(seconds * static_cast<double>(steps)), path_of(run)));
  flush_standard_output(progress.output_error());
  return static_cast<int>(ExitCode::done);
}

/// Describes how a signal ended the run: "interrupted (SIGINT, Ctrl-C)" or "stopped by SIGTERM".
std::string describe_signal(int signal) {
  if (signal == SIGINT) return "interrupted (SIGINT, Ctrl-C)";
  return fmt::format("stopped by SIG{}", ::sigabbrev_np(signal));
}

/// Prints why a dry run ended early and returns the exit code: for the signal that any process has
/// received, or for the time limit.
int code_of_interruption(ProcessGroup& group, const RunSignals& signals, Progress& progress) {
  const auto signals_of_all = group.all_gather([&] { return fmt::to_string(signals.stop()); });
  const auto first = std::ranges::find_if(signals_of_all, [](auto& text) { return text != "0"; });
  if (first == signals_of_all.end()) {
    progress.message("stopped by the time limit, train.max_time; nothing was written");
    return static_cast<int>(ExitCode::out_of_time);
  }
  const int signal = std::stoi(*first);
  progress.message(describe_signal(signal) + "; nothing was written");
  return signal_exit_base + signal;
}

// ---- Training.

/// Warns during the run if other programs slow it down, unless a warning about its number of
/// threads is already due.
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
  progress.message_later(std::chrono::seconds(6), warning);  // longer than min_load_interval
}

void print_profile(const Profile& profile, Progress& progress) {
  std::istringstream table(to_string(profile));
  for (std::string line; std::getline(table, line);) progress.message(line);
}

/// Starts timing, recording and the monitoring of other programs, in rank 0.
void begin_recording(const LoadedRun& run, Trainer& trainer, Progress& progress) {
  progress.start_timing();
  trainer.record_to(run.directory.path());
  watch_other_programs(progress);
}

/// reason  why the run stops, such as describe_signal()
int report_stop(const LoadedRun& run, const Trainer& trainer, const std::string& reason, int code,
                Progress& progress) {
  progress.message(fmt::format("{} and saved at step {}; resume with: {} train --resume {}", reason,
                               format_count(trainer.step()), program_name(),
                               format_argument(path_of(run))));
  return code;
}

/// Prints how the run ended and returns the exit code.
int report_end(const LoadedRun& run, const Trainer& trainer, RunEnd end, const RunSignals& signals,
               Progress& progress) {
  const TrainOptions& options = trainer.config().train;
  switch (end) {
    case RunEnd::signal:
      return report_stop(run, trainer, describe_signal(signals.stop()),
                         signal_exit_base + signals.stop(), progress);
    case RunEnd::time:
      return report_stop(
          run, trainer,
          fmt::format("stopped by train.max_time ({})", Domain(Duration()).print(options.max_time)),
          static_cast<int>(ExitCode::out_of_time), progress);
    case RunEnd::last_step:
      return report_stop(run, trainer, "stopped by --until", static_cast<int>(ExitCode::done),
                         progress);
    case RunEnd::finished:
      break;
  }
  if (const std::string best = trainer.best_in_words(); !best.empty()) progress.message(best);
  const bool early = trainer.step() < options.steps;
  const bool has_held_out = !run.corpus.validation.empty() || !run.corpus.test.empty();
  progress.message(fmt::format(
      "done: {} steps{}; next: {} {} {}", format_count(trainer.step()),
      early ? fmt::format(", no new best in {} validations", options.patience) : "", program_name(),
      has_held_out ? "evaluate" : "report", format_argument(path_of(run))));
  return static_cast<int>(ExitCode::done);
}

/// Writes an error to the log, and the end of the run to the output.
void report_error(const std::exception_ptr& error, Progress& progress) {
  try {
    std::rethrow_exception(error);
  } catch (const std::bad_alloc&) {
    progress.log_error("the system has no more memory");
  } catch (const std::exception& known) {
    progress.log_error(known.what());
  } catch (...) {
  }
  progress.end(static_cast<int>(to_exit_code(error)));
}

// ---- The run.

Interruptions interruptions_of(const RunOptions& options, const Config& config,
                               RunSignals& signals) {
  return {.signals = &signals,
          .time = TimeLimit(options.started, config.train.max_time),
          .last_step = options.until == 0 ? std::nullopt : std::optional(options.until)};
}

/// All stages of a run. Returns the exit code.
int train(LoadedRun& run, const RunOptions& options, ProcessGroup& group, RunSignals& signals,
          Progress& progress) {
  const AvailableMemory available = read_available_memory();
  require_memory_for_model(run.config, run.corpus, available, group.size());
  Trainer trainer(run.config, run.corpus, run.directory, progress, group);
  const std::vector<std::string> loaded = load_state(run, trainer);
  try_model(run, trainer.model());
  require_same_run(run, trainer.computer(), group);
  signals.start_run();
  if (!options.dry_run) {
    group.on_rank_0([&] { open_directory(run, options.fresh, trainer, progress); });
  }
  describe(run, trainer, loaded, group.size(), progress);
  const Interruptions interruptions = interruptions_of(options, run.config, signals);
  if (const auto time = interruptions.time.save_deadline()) signals.end_at(*time);
  try {
    const kernels::CancellationScope cancellable(&signals.end_requested());
    group.together([&] { prepare_memory(trainer, run.corpus, available, group.size(), progress); });
    if (options.dry_run) return try_one_step(run, trainer.computer(), progress);
  } catch (const kernels::Cancelled&) {  // the trainer finds the reason and ends the run
    if (options.dry_run) return code_of_interruption(group, signals, progress);
  }
  if (group.is_rank_0()) begin_recording(run, trainer, progress);
  std::optional<Profiler> profiler;
  if (options.profile) profiler.emplace();
  const RunEnd end = trainer.run(interruptions);
  if (profiler) print_profile(profiler->profile(), progress);
  return report_end(run, trainer, end, signals, progress);
}

/// The format of the output. A group of processes gets no live line: mpirun gives each process a
/// terminal, even if mpirun itself writes to a file.
ProgressFormat progress_format(const RunOptions& options, const ProcessGroup& group) {
  if (options.json) return ProgressFormat::json;
  return group.size() > 1 ? ProgressFormat::lines : ProgressFormat::text;
}

/// Trains the run, and prints its progress and its end.
int train_and_report(LoadedRun run, const RunOptions& options, ProcessGroup& group,
                     RunSignals& signals) {
  const bool is_rank_0 = group.is_rank_0();
  require_work_for_all(group.size(), run.config);
  Progress progress(options.quiet || !is_rank_0 ? nullptr : stdout, run.first_step(),
                    run.config.train.steps, find_task(run.config).words(run.config).targets,
                    progress_format(options, group));
  if (options.quiet && is_rank_0) progress.warn_on_standard_error();
  try {
    const int code = train(run, options, group, signals, progress);
    progress.end(code);
    return code;
  } catch (...) {
    report_error(std::current_exception(), progress);
    throw;
  }
}

}  // namespace

int start_run(const RunOptions& options, ProcessGroup& group) {
  return start_run(load_new_config(options.config, options.overrides), options, group);
}

int start_run(Config config, const RunOptions& options, ProcessGroup& group) {
  RunSignals signals(!options.dry_run, true);
  return train_and_report(load_new_run(std::move(config), options, group), options, group, signals);
}

int resume_run(const RunOptions& options, ProcessGroup& group) {
  RunSignals signals(!options.dry_run, true);
  std::optional<LoadedRun> run = load_resumed_run(options, group);
  if (!run) return static_cast<int>(ExitCode::done);
  return train_and_report(*std::move(run), options, group, signals);
}

int start_or_resume_run(const RunOptions& options, ProcessGroup& group) {
  const RunDirectory directory(load_config(options.config, options.overrides).train.run_dir);
  bool exists = false;
  group.on_rank_0([&] { exists = !directory.steps().empty(); });
  return group.any_process(exists) ? resume_run(options, group) : start_run(options, group);
}

}  // namespace tapestry
