#include "train/training_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <span>
#include <sstream>

#include "autograd/kernels/parallel.h"
#include "autograd/profiler.h"
#include "data/batch.h"
#include "train/checkpoint/run_identity.h"
#include "train/config/config.h"
#include "train/config/domains.h"
#include "train/config/percentages.h"
#include "train/error.h"
#include "train/format.h"
#include "train/memory_need.h"
#include "train/model_summary.h"
#include "train/platform/durable_file.h"
#include "train/platform/machine.h"
#include "train/platform/memory.h"
#include "train/platform/program_name.h"
#include "train/tasks/task.h"

namespace tapestry {
namespace {

using Clock = TimeLimit::Clock;

void report(const Profile& profile, Progress& progress) {
  std::istringstream table(to_string(profile));
  for (std::string line; std::getline(table, line);) progress.message(line);
}

Trainer::End train(Trainer& trainer, const TrainingRun& run, const Interruptions& interruptions,
                   Progress& progress) {
  if (!run.profile) return trainer.run(interruptions);
  const Profiler profiler;
  const Trainer::End end = trainer.run(interruptions);
  report(profiler.profile(), progress);
  return end;
}

int stopped(const Trainer& trainer, const std::string& by, const std::string& run_dir, int code,
            Progress& progress) {
  progress.message(
      fmt::format("stopped by {} and saved at step {}; resume with: {} train "
                  "--resume {}",
                  by, format_count(trainer.step()), program_name(), format_argument(run_dir)));
  return code;
}

/// Reports the share of unknown tokens, which a model cannot distinguish.
std::optional<std::string> note_on_unknown_tokens(const Config& config, const Corpus& corpus) {
  constexpr double alarming = 0.5;  // share of the training set
  const RowLayout& layout = find_task(config).layout();
  const double training = share_of_unknown_tokens(corpus.train, layout);
  std::vector<std::string> shares;
  const auto add = [&](double share, const char* part) {
    if (share > 0.0) shares.push_back(fmt::format("{} of the {} set", format_share(share), part));
  };
  add(training, "training");
  add(share_of_unknown_tokens(corpus.validation, layout), "validation");
  add(share_of_unknown_tokens(corpus.test, layout), "test");
  if (shares.empty()) return std::nullopt;
  return fmt::format("{}unknown tokens: {}", training > alarming ? "warning: " : "",
                     fmt::join(shares, ", "));
}

/// Warns if the learning rate is 0 for some steps, which then have no effect.
std::optional<std::string> warning_about_rate(const Config& config) {
  const ScheduleOptions& schedule = config.schedule;
  const bool ends_at_zero =
      schedule.kind == ScheduleKind::cosine && schedule.min_learning_rate == 0.0;
  if (!ends_at_zero || schedule.decay_steps >= config.train.steps) return std::nullopt;
  return fmt::format(
      "warning: the learning rate is 0 from step {} to {}: raise schedule.decay_steps or "
      "schedule.min_learning_rate",
      format_count(schedule.decay_steps), format_count(config.train.steps));
}

/// Writes the complete config of the run, after its id. throws OutputError.
void write_config(const RunDirectory& directory, const Config& config, const std::string& run_id) {
  const std::string text = run_id_line(run_id) + dump_config(config);
  write_file_durably(directory.path() / "config.yaml", std::as_bytes(std::span(text)));
}

/// Prints a description of the data and the model, and warnings about slow settings.
void describe(const Trainer& trainer, const Corpus& corpus, const std::string& run_dir,
              Progress& progress) {
  const Task& task = find_task(trainer.config());
  for (const std::string& note : corpus.notes) progress.message(note);
  progress.message(fmt::format(
      "data: {} training {}, {} validation, {} test; {}", format_count(corpus.train.size()),
      task.example_noun(trainer.config()), format_count(corpus.validation.size()),
      format_count(corpus.test.size()), task.describe_vocabularies(corpus)));
  if (const auto note = note_on_unknown_tokens(trainer.config(), corpus)) progress.message(*note);
  progress.message(fmt::format(
      "model: {} parameters in {} tensors; threads: {}; {}; run directory {}",
      format_count(trainer.model().parameters.num_values()),
      trainer.model().parameters.list().size(), kernels::num_threads(), arithmetic(), run_dir));
  progress.message("blocks: " + to_line(summarize(shapes_of(trainer.model().parameters))));
  if (const auto note = describe_percentages(trainer.config())) progress.message(*note);
  for (const auto& warning :
       {warning_about_cores(read_cores(), kernels::num_threads()), warning_about_blas(read_blas()),
        warning_about_rate(trainer.config())}) {
    if (warning) progress.message(*warning);
  }
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

/// "45 seconds", "12 minutes"
std::string in_words(double seconds) {
  constexpr double minute = 60.0, hour = 3600.0, day = 86400.0;
  if (seconds < 2 * minute) return fmt::format("{:.0f} seconds", seconds);
  if (seconds < 2 * hour) return fmt::format("{:.0f} minutes", seconds / minute);
  if (seconds < 2 * day) return fmt::format("{:.0f} hours", seconds / hour);
  return fmt::format("{:.0f} days", seconds / day);
}

/// Announces a step that takes long, from the time of its largest batch.
void announce_long_step(Clock::duration largest_batch, const Config& config, Progress& progress) {
  constexpr double long_step = 30.0;  // seconds
  const double seconds = std::chrono::duration<double>(largest_batch).count() *
                         static_cast<double>(config.train.accumulate);
  if (seconds < long_step) return;
  progress.message(fmt::format("a step takes up to {}, all {} steps up to {}", in_words(seconds),
                               format_count(config.train.steps),
                               in_words(seconds * static_cast<double>(config.train.steps))));
}

/// Prints how much memory the run needs, and allocates the memory of its largest step, so that a
/// lack of memory is detected before training. throws kernels::OutOfMemory, kernels::Cancelled.
void prepare_memory(const Trainer& trainer, const Corpus& corpus, const AvailableMemory& available,
                    Progress& progress) {
  const Config& config = trainer.config();
  const Batch largest = largest_batch(corpus.train, config.train.batch_size,
                                      batch_rules(config, corpus.target_vocabulary.size()));
  const std::string size = find_task(config).describe_size(largest);
  constexpr std::size_t long_sequence = 2048;  // a few rows of it may take seconds
  if (std::max(largest.source_length, largest.target_length) >= long_sequence) {
    progress.message(fmt::format("measuring memory and time of the largest step: {}", size));
  }
  MemoryNeed need = need_of_model(config, corpus);
  need.step = estimate_step(trainer.model(), corpus, config);
  progress.message(to_line(need, size, available));
  if (const auto warning = warning_about_memory(need, available)) progress.message(*warning);
  const Clock::time_point started = Clock::now();
  warm_up(trainer.model(), largest, config);
  announce_long_step(Clock::now() - started, config, progress);
  if (const std::size_t threads = kernels::threads_at_work(); threads < kernels::num_threads()) {
    progress.message(fmt::format(
        "warning: threads: {} instead of {}, the system gives no more (ulimit -u, ulimit -v)",
        threads, kernels::num_threads()));
  }
}

/// Prints how the run ended and returns the exit code.
int report_end(Trainer::End end, const Trainer& trainer, const std::string& run_dir,
               const RunSignals& signals, Progress& progress) {
  const TrainOptions& options = trainer.config().train;
  switch (end) {
    case Trainer::End::signal:
      return stopped(trainer, fmt::format("signal {}", signals.stop()), run_dir,
                     signal_exit_base + signals.stop(), progress);
    case Trainer::End::time:
      return stopped(trainer, fmt::format("train.max_time ({})", Duration::print(options.max_time)),
                     run_dir, static_cast<int>(ExitCode::out_of_time), progress);
    case Trainer::End::finished:
      break;
  }
  const bool early = trainer.step() < options.steps;
  progress.message(
      fmt::format("done: {} steps{}; next: {} evaluate {}", format_count(trainer.step()),
                  early ? fmt::format(", no new best in {} validations", options.patience) : "",
                  program_name(), format_argument(run_dir)));
  return static_cast<int>(ExitCode::done);
}

/// Computes one step and prints how long the run takes. Returns the exit code.
int try_one_step(Trainer& trainer, const std::string& run_dir, Progress& progress) {
  const std::size_t steps = trainer.config().train.steps - trainer.step();
  const Trainer::StepTime step = trainer.try_step();
  const double seconds = std::chrono::duration<double>(step.time).count();
  progress.message(fmt::format(
      "dry run: step {} took {:.3g} seconds ({} {}, loss {:.4f}); {} steps take about {}, besides "
      "validation and saving; nothing was written to {}",
      format_count(trainer.step() + 1), seconds, format_count(step.targets),
      find_task(trainer.config()).target_noun(trainer.config()), step.loss, format_count(steps),
      in_words(seconds * static_cast<double>(steps)), run_dir));
  return static_cast<int>(ExitCode::done);
}

/// A batch of the first training example.
Batch first_example(const TrainingRun& run) {
  return make_batch(run.corpus.train, std::array<std::size_t, 1>{0},
                    batch_rules(run.config, run.corpus.target_vocabulary.size()));
}

}  // namespace

int run_training(const TrainingRun& run) {
  const std::string run_dir = run.directory.path().string();
  const AvailableMemory available = read_available_memory();
  require_memory_for_model(run.config, run.corpus, available);
  RunDirectory directory = run.directory;
  Progress progress(stdout, run.first_step, run.config.train.steps,
                    find_task(run.config).target_noun(run.config));
  Trainer trainer(run.config, run.corpus, directory, progress);
  const std::vector<std::string> messages = run.load_state(trainer);
  try_network(run.config, trainer.model(), first_example(run));

  RunSignals signals;
  if (!run.dry_run) {
    run.claim_directory(directory);
    directory.remove_stray_temporaries();
    write_config(directory, run.config, trainer.run_id());
    directory.probe(trainer.checkpoint_bytes());
    progress.log_to((directory.path() / "train.log").string());
  }
  for (const std::string& message : messages) progress.message(message);
  describe(trainer, run.corpus, run_dir, progress);
  const Interruptions interruptions{.signals = &signals,
                                    .time = TimeLimit(run.started, run.config.train.max_time)};
  if (const auto time = interruptions.time.last_call()) signals.end_at(*time);
  try {
    const kernels::CancellationScope cancellable(&signals.end_requested());
    prepare_memory(trainer, run.corpus, available, progress);
  } catch (const kernels::Cancelled&) {  // the trainer finds the reason and ends
  }
  if (run.dry_run && !signals.end_requested()) return try_one_step(trainer, run_dir, progress);
  if (run.dry_run) return signal_exit_base + signals.stop();
  progress.time_to((directory.path() / "timing.csv").string());
  watch_other_programs(progress);
  const Trainer::End end = train(trainer, run, interruptions, progress);
  return report_end(end, trainer, run_dir, signals, progress);
}

}  // namespace tapestry
