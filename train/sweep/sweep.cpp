#include "train/sweep/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <deque>
#include <exception>
#include <list>
#include <map>
#include <optional>
#include <span>
#include <system_error>
#include <thread>
#include <utility>

#include "data/io/durable_file.h"
#include "data/io/file.h"
#include "data/io/utf8.h"
#include "train/checkpoint/run_directory.h"
#include "train/config/config.h"
#include "train/config/error.h"
#include "train/error.h"
#include "train/format.h"
#include "train/metrics.h"
#include "train/platform/interruptions.h"
#include "train/platform/standard_streams.h"
#include "train/report/report_file.h"
#include "train/sweep/sweep_results.h"
#include "train/sweep/sweep_runs.h"
#include "train/sweep/training_process.h"

namespace tapestry {
namespace {

namespace fs = std::filesystem;

constexpr const char* plan_file_name = "sweep.json";
constexpr const char* table_file_name = "sweep.csv";
constexpr const char* groups_file_name = "sweep-groups.csv";

/// A run of the sweep while it is being trained.
struct Job {
  std::size_t run;  ///< its index
  bool resumes;     ///< whether it had a checkpoint when the process started
  TrainingProcess process;
};

using Clock = std::chrono::steady_clock;

/// When a run that another process has locked is tried again.
struct InUse {
  std::chrono::milliseconds delay;  ///< before the next attempt
  Clock::time_point retry{};
};

/// Requests that all runs save and end, and waits for them.
void stop(std::list<Job>& jobs) {
  for (Job& job : jobs) job.process.stop();
  for (Job& job : jobs) job.process.wait();
}

class SweepRunner {
 public:
  explicit SweepRunner(const Sweep& sweep);

  int run();

 private:
  std::string name(std::size_t run) const { return run_name(sweep_, run); }
  fs::path folder(std::size_t run) const { return run_folder(sweep_, run); }
  std::string describe(std::size_t run) const { return describe_run(sweep_, run); }

  void require_valid_configs();
  void require_same_plan() const;

  void run_stage(const SweepStage& stage, const std::vector<std::size_t>& runs);
  Job start(std::size_t run, const SweepStage& stage) const;
  bool was_saved_meanwhile(const Job& job, int code) const;
  void train(const SweepStage& stage, std::deque<std::size_t>& waiting, std::list<Job>& jobs);
  void finish(std::size_t run, int code, const SweepStage& stage);
  void fail(std::size_t run, int code, const std::string& error);
  void wait_for(std::size_t run, std::deque<std::size_t>& waiting);
  std::optional<std::size_t> take_ready(std::deque<std::size_t>& waiting) const;
  bool has_checkpoint(std::size_t run) const;
  std::uint64_t steps_done(std::size_t run) const;
  std::string read_last_error(std::size_t run) const;
  std::optional<BestValue> best(std::size_t run, std::uint64_t last_step);

  std::vector<std::size_t> select_best(const std::vector<std::size_t>& runs,
                                       std::uint64_t last_step, std::size_t count);
  std::vector<SweepResult> results(const std::vector<std::size_t>& last_stage);
  void write_tables(const std::vector<SweepResult>& results) const;
  void print(const std::vector<SweepResult>& results);
  void write_report() const;
  int exit_code(const std::vector<SweepResult>& results) const;
  void print_line(const std::string& line);

  const Sweep& sweep_;
  RunSignals signals_;
  Config first_config_;                  ///< of the first run
  std::map<std::size_t, InUse> in_use_;  ///< runs that other processes had locked
  std::map<std::size_t, int> failed_;    ///< with their exit codes
  std::optional<int> stopped_;           ///< the exit code if the sweep was stopped
  int print_error_ = 0;                  ///< errno of the first line that could not be printed
};

SweepRunner::SweepRunner(const Sweep& sweep) : sweep_(sweep) { require_valid_configs(); }

// ---- The plan.

void SweepRunner::require_valid_configs() {
  std::optional<std::string> metric;
  for (std::size_t run = 0; run < sweep_.runs.size(); ++run) {
    const Config config = load_config(sweep_.config, run_overrides(sweep_, run));
    if (!metric) first_config_ = config;
    if (metric && *metric != config.train.best_metric) {
      throw UsageError("train.best_metric: found several values, expected one for all runs",
                       "runs are compared by it");
    }
    metric = config.train.best_metric;
    if (sweep_.halving > 0 &&
        (config.train.steps != first_config_.train.steps || config.train.epochs != 0)) {
      throw UsageError("--halving: expected the same train.steps for all runs, and no train.epochs",
                       "leave out --halving, or set train.steps");
    }
  }
}

/// Compares the sweep with the one that the folder was made for, or stores it.
void SweepRunner::require_same_plan() const {
  const std::string text = sweep_plan_text(sweep_, first_config_);
  const fs::path path = sweep_.folder / plan_file_name;
  const auto before = read_run_file(path);
  if (!before) return write_file_durably(path, std::as_bytes(std::span(text)));
  if (*before == text) return;
  throw ConfigError(
      {{.place = {.file = path.string()},
        .message = "the folder has a sweep of another config, other values or another --halving",
        .hint = "name another folder with --output, or delete this one"}});
}

// ---- Training.

/// A run that was stopped before its first step has one of step 0.
bool SweepRunner::has_checkpoint(std::size_t run) const {
  return !RunDirectory(folder(run)).steps().empty();
}

std::uint64_t SweepRunner::steps_done(std::size_t run) const {
  const auto steps = RunDirectory(folder(run)).steps();
  return steps.empty() ? 0 : steps.back();
}

Job SweepRunner::start(std::size_t run, const SweepStage& stage) const {
  const bool resumes = has_checkpoint(run);
  const auto arguments = run_arguments(sweep_, run, stage.step, resumes);
  try {
    return {.run = run,
            .resumes = resumes,
            .process = {arguments, sweep_.folder / (name(run) + ".err")}};
  } catch (const std::system_error& error) {
    throw OutputError(
        fmt::format("{}: could not start the run: {}", escaped(folder(run).string()), error.what()),
        "free some memory or disk, or use fewer --jobs");
  }
}

/// The last error that the process of a run has printed.
std::string SweepRunner::read_last_error(std::size_t run) const {
  constexpr std::size_t most = 64 * 1024;
  constexpr std::string_view mark = "error: ";
  try {
    const fs::path path = sweep_.folder / (name(run) + ".err");
    const std::string text = read_end_of_run_file(path, most).value_or("");
    const std::size_t last = text.rfind(mark);
    if (last == text.npos) return "";
    const std::size_t line = text.rfind('\n', last) + 1;  // 0 in the first line
    const std::size_t begin = text.find(mark, line) + mark.size();
    return text.substr(begin, text.find('\n', begin) - begin);
  } catch (const FileError& error) {
    return error.what();
  }
}

void SweepRunner::finish(std::size_t run, int code, const SweepStage& stage) {
  std::error_code ignored;
  const fs::path errors = sweep_.folder / (name(run) + ".err");
  if (code == 0) {
    if (fs::file_size(errors, ignored) == 0) fs::remove(errors, ignored);
    failed_.erase(run);
    const auto found = best(run, stage.step);
    if (failed_.contains(run)) return;
    print_line(fmt::format(
        "{}  step {}{}", describe(run), format_count(steps_done(run)),
        found ? fmt::format(": best {} {:.4f} at step {}", first_config_.train.best_metric,
                            found->value, format_count(found->step))
              : ""));
  } else if (code == static_cast<int>(ExitCode::out_of_time)) {
    stopped_ = code;
  } else if (!stopped_) {
    fail(run, code, read_last_error(run));
  }
}

void SweepRunner::fail(std::size_t run, int code, const std::string& error) {
  failed_[run] = code;
  print_line(fmt::format("{}  failed with exit code {}{}", describe(run), code,
                         error.empty() ? "" : ": " + escaped(error)));
}

/// Tries a run again, later each time, that another process has locked: one of a killed sweep that
/// still saves, or that of another user.
void SweepRunner::wait_for(std::size_t run, std::deque<std::size_t>& waiting) {
  constexpr std::chrono::milliseconds first_delay(100), longest_delay(10'000);
  const auto [place, is_new] = in_use_.try_emplace(run, InUse{.delay = first_delay});
  if (is_new) {
    print_line(fmt::format("{}  waits for another process, which trains it", describe(run)));
  }
  InUse& in_use = place->second;
  in_use.retry = Clock::now() + in_use.delay;
  in_use.delay = std::min(2 * in_use.delay, longest_delay);
  waiting.push_front(run);
}

/// Removes the first waiting run that can be started now; nullopt if there is none.
std::optional<std::size_t> SweepRunner::take_ready(std::deque<std::size_t>& waiting) const {
  const auto is_ready = [&](std::size_t run) {
    const auto in_use = in_use_.find(run);
    return in_use == in_use_.end() || in_use->second.retry <= Clock::now();
  };
  const auto ready = std::ranges::find_if(waiting, is_ready);
  if (ready == waiting.end()) return std::nullopt;
  const std::size_t run = *ready;
  waiting.erase(ready);
  return run;
}

/// Whether a new run was refused because a process of a killed sweep, which was still ending, has
/// saved it after start() had looked for a checkpoint.
bool SweepRunner::was_saved_meanwhile(const Job& job, int code) const {
  return !job.resumes && code == static_cast<int>(ExitCode::usage) && has_checkpoint(job.run);
}

/// Trains the runs up to the step of the stage.
void SweepRunner::run_stage(const SweepStage& stage, const std::vector<std::size_t>& runs) {
  std::deque<std::size_t> waiting;
  for (const std::size_t run : runs) {
    // Without stages the process of a run finds out whether it has ended.
    if (sweep_.halving == 0 || steps_done(run) < stage.step) waiting.push_back(run);
  }
  std::list<Job> jobs;
  try {
    train(stage, waiting, jobs);
  } catch (...) {
    stop(jobs);
    throw;
  }
  stop(jobs);
}

/// Trains the waiting runs until all have ended or the sweep is stopped; `jobs` are those that are
/// then still being trained, also if it throws.
void SweepRunner::train(const SweepStage& stage, std::deque<std::size_t>& waiting,
                        std::list<Job>& jobs) {
  while (!waiting.empty() || !jobs.empty()) {
    if (signals_.stop() != 0) stopped_ = signal_exit_base + signals_.stop();
    if (stopped_) return;
    while (jobs.size() < sweep_.jobs) {
      const auto run = take_ready(waiting);
      if (!run) break;
      jobs.push_back(start(*run, stage));
    }
    for (auto job = jobs.begin(); job != jobs.end();) {
      const auto code = job->process.poll();
      if (!code) {
        ++job;
        continue;
      }
      const Job ended = std::move(*job);
      job = jobs.erase(job);
      if (*code == static_cast<int>(ExitCode::in_use)) {
        wait_for(ended.run, waiting);
      } else if (was_saved_meanwhile(ended, *code)) {
        waiting.push_front(ended.run);
      } else {
        finish(ended.run, *code, stage);
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

// ---- Results.

/// The best value of a run up to a step. A run whose metrics.csv is damaged fails.
std::optional<BestValue> SweepRunner::best(std::size_t run, std::uint64_t last_step) {
  try {
    const std::string csv = read_run_file(folder(run) / "metrics.csv").value_or("");
    if (csv.empty()) return std::nullopt;
    require_metrics(csv, escaped((folder(run) / "metrics.csv").string()));
    return best_value(csv, first_config_.train.best_metric, last_step);
  } catch (const UserError& error) {
    if (!failed_.contains(run)) fail(run, static_cast<int>(error.exit_code()), error.what());
    return std::nullopt;
  }
}

/// The `count` runs with the best values up to a step, in their order.
std::vector<std::size_t> SweepRunner::select_best(const std::vector<std::size_t>& runs,
                                                  std::uint64_t last_step, std::size_t count) {
  std::vector<std::optional<double>> values;
  for (const std::size_t run : runs) {
    const auto found = failed_.contains(run) ? std::nullopt : best(run, last_step);
    values.push_back(found ? std::optional(found->value) : std::nullopt);
  }
  std::vector<std::size_t> kept;
  for (const std::size_t i : best_runs(values, first_config_.train.best_metric, count)) {
    kept.push_back(runs[i]);
  }
  return kept;
}

std::vector<SweepResult> SweepRunner::results(const std::vector<std::size_t>& last_stage) {
  std::vector<SweepResult> results;
  for (std::size_t run = 0; run < sweep_.runs.size(); ++run) {
    const bool is_last = std::ranges::binary_search(last_stage, run);
    SweepResult& result = results.emplace_back();
    result.run = name(run);
    result.values = sweep_.runs[run];
    result.steps = steps_done(run);
    if (const auto found = best(run, result.steps)) {
      result.best = found->value;
      result.best_step = found->step;
    }
    result.end = failed_.contains(run) ? SweepEnd::failed
                 : is_last             ? SweepEnd::finished
                                       : SweepEnd::abandoned;
  }
  return results;
}

/// With several seeds also the table of their means.
void SweepRunner::write_tables(const std::vector<SweepResult>& results) const {
  const auto& axes = sweep_.overrides.axes;
  const std::string runs = sweep_csv(axes, results, first_config_.train.best_metric);
  write_file_durably(sweep_.folder / table_file_name, std::as_bytes(std::span(runs)));
  const auto summaries = summarize_seeds(axes, results);
  if (summaries.empty()) return;
  const std::string groups = seed_summaries_csv(axes, summaries);
  write_file_durably(sweep_.folder / groups_file_name, std::as_bytes(std::span(groups)));
}

void SweepRunner::print(const std::vector<SweepResult>& results) {
  const std::string& metric = first_config_.train.best_metric;
  std::vector<std::optional<double>> values;
  for (const SweepResult& result : results) {
    values.push_back(result.end == SweepEnd::finished ? result.best : std::nullopt);
  }
  const std::size_t best = best_runs(values, metric, 1).front();
  for (const SeedSummary& seeds : summarize_seeds(sweep_.overrides.axes, results)) {
    print_line(seed_summary_line(sweep_.overrides.axes, seeds, metric));
  }
  if (values[best]) {
    print_line(fmt::format("best: {}: {} {:.4f} at step {}; table: {}", describe(best), metric,
                           *values[best], format_count(results[best].best_step),
                           escaped((sweep_.folder / table_file_name).string())));
  }
}

/// Prints a line at once. run() reports at its end if that has failed, since the runs need not end.
void SweepRunner::print_line(const std::string& line) {
  errno = 0;
  const bool is_printed =
      std::fputs((line + "\n").c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
  if (!is_printed && print_error_ == 0) print_error_ = errno;
}

/// The report of the runs that have a checkpoint, with curves and differences of their configs. The
/// results do not depend on it.
void SweepRunner::write_report() const try {
  ReportData data({.details = false});
  bool has_run = false;
  for (std::size_t run = 0; run < sweep_.runs.size(); ++run) {
    if (steps_done(run) == 0) continue;
    data.add(folder(run).string());
    has_run = true;
  }
  if (has_run) tapestry::write_report(data, sweep_.folder / report_file_name);
} catch (const std::exception& error) {
  warn(fmt::format("the report of the sweep could not be written: {}", error.what()));
}

/// If no run has finished, those of the last stage have failed.
int SweepRunner::exit_code(const std::vector<SweepResult>& results) const {
  const bool has_finished =
      std::ranges::find(results, SweepEnd::finished, &SweepResult::end) != results.end();
  return has_finished ? 0 : failed_.begin()->second;
}

int SweepRunner::run() {
  create_folder_durably(sweep_.folder);
  const RunLock lock(sweep_.folder);
  require_same_plan();
  std::vector<std::size_t> runs;
  for (std::size_t run = 0; run < sweep_.runs.size(); ++run) runs.push_back(run);
  const TrainOptions& train = first_config_.train;
  const auto stages = sweep_stages(runs.size(), sweep_.halving, train.steps, train.validate_every);
  std::uint64_t last_step = 0;
  for (const SweepStage& stage : stages) {
    if (stage.runs < runs.size()) runs = select_best(runs, last_step, stage.runs);
    last_step = stage.step;
    if (stages.size() > 1) {
      print_line(fmt::format("{} run{} to step {}", format_count(runs.size()),
                             runs.size() == 1 ? "" : "s", format_count(stage.step)));
    }
    run_stage(stage, runs);
    if (stopped_) {
      print_line("stopped; continue with the same command");
      flush_standard_output(print_error_);
      return *stopped_;
    }
  }
  const auto table = results(runs);
  write_tables(table);
  print(table);
  write_report();
  flush_standard_output(print_error_);
  return exit_code(table);
}

}  // namespace

int run_sweep(const Sweep& sweep) { return SweepRunner(sweep).run(); }

}  // namespace tapestry
