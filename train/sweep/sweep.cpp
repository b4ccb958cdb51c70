// SPDX-License-Identifier: BSD-3-Clause
#include "train/sweep/sweep.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "data/io/durable_file.h"
#include "data/io/file.h"
#include "data/io/utf8.h"
#include "train/base/error.h"
#include "train/base/format.h"
#include "train/checkpoint/metrics.h"
#include "train/checkpoint/open_run.h"
#include "train/checkpoint/resume.h"
#include "train/checkpoint/run_directory.h"
#include "train/checkpoint/run_lock.h"
#include "train/config/config.h"
#include "train/config/difference.h"
#include "train/config/load.h"
#include "train/report/report_data.h"
#include "train/sweep/sweep_results.h"
#include "train/system/child_process.h"
#include "train/system/cores.h"
#include "train/system/interruptions.h"
#include "train/system/standard_streams.h"

namespace tapestry {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

/// A run of the sweep.
struct Run {
  SweepResult result;
  std::vector<std::string> overrides;
  pid_t process = 0;          ///< id of the process that trains the run
  bool resumes = false;       ///< whether the run had a checkpoint when the process started
  Clock::time_point retry{};  ///< time of the next attempt if another process had locked the run
  int failed = 0;             ///< exit code of a failed run
};
using Runs = std::vector<Run*>;

/// Saves and stops the runs that are being trained.
struct StopAtEnd {
  const Runs& training;
  ~StopAtEnd() {
    for (const Run* run : training) stop_process(run->process);
    for (const Run* run : training) await_end(run->process);
  }
};

/// The runs of a sweep in their initial state. Names such as run-01 have as many digits as the
/// number of the last run.
std::vector<Run> make_runs(const Sweep& sweep) {
  const std::size_t digits = std::max<std::size_t>(2, fmt::to_string(sweep.runs.size()).size());
  const std::vector<SweepAxis>& axes = sweep.overrides.axes;
  std::vector<Run> runs;
  for (const SweepValues& values : sweep.runs) {
    const std::string name = fmt::format("run-{:0{}}", runs.size() + 1, digits);
    Run& run = runs.emplace_back(
        Run{.result = {.name = name, .values = values}, .overrides = sweep.overrides.fixed});
    for (std::size_t axis = 0; axis < axes.size(); ++axis) {
      run.overrides.push_back(axes[axis].key + "=" + values[axis]);
    }
  }
  return runs;
}

/// The config of the first run.
///
/// throws  ConfigError, UsageError if the runs have no valid configs or cannot be compared
Config check_configs(const Sweep& sweep, const std::vector<Run>& runs) {
  const Config first = load_config(sweep.config, runs.front().overrides);
  for (const Run& run : runs) {
    const TrainOptions train = load_config(sweep.config, run.overrides).train;
    if (train.best_metric != first.train.best_metric) {
      throw UsageError("train.best_metric: found several values, expected one value for all runs",
                       "runs are compared by it");
    }
    if (sweep.halving > 0 && (train.steps != first.train.steps || train.epochs != 0)) {
      throw UsageError("--halving: expected the same train.steps for all runs, and no train.epochs",
                       "remove --halving, or set train.steps");
    }
  }
  return first;
}

class SweepRunner {
 public:
  /// throws  ConfigError and UsageError like check_configs()
  explicit SweepRunner(const Sweep& sweep)
      : sweep_(sweep), runs_(make_runs(sweep)), options_(check_configs(sweep, runs_).train) {
    ::signal(SIGCHLD, SIG_DFL);  // if SIGCHLD is ignored, waitpid() gets no exit codes
  }

  int run() {
    create_folder_durably(sweep_.folder);
    const RunLock lock(sweep_.folder);
    Runs runs;
    for (Run& run : runs_) runs.push_back(&run);
    const auto stages = sweep_stages(group_by_setting(runs).size(), sweep_.halving, options_.steps,
                                     options_.validate_every);
    std::uint64_t last_step = 0;
    for (const SweepStage& stage : stages) {
      if (last_step > 0) runs = select_best(runs, last_step, stage.settings);
      last_step = stage.step;
      if (stages.size() > 1) {
        print(fmt::format("{} run{} to step {}", format_count(runs.size()),
                          runs.size() == 1 ? "" : "s", format_count(stage.step)));
      }
      train(stage, runs);
      if (stopped_ != 0) {
        print("stopped; continue with the same command");
        flush_standard_output(print_error_);
        return stopped_;
      }
    }
    return write_results(runs);
  }

 private:
  fs::path folder(const Run& run) const { return sweep_.folder / run.result.name; }
  fs::path errors(const Run& run) const { return sweep_.folder / (run.result.name + ".err"); }

  /// The step of the newest checkpoint; nullopt if the run has no checkpoint.
  std::optional<std::uint64_t> saved_step(const Run& run) const {
    const auto steps = RunDirectory(folder(run)).steps();
    return steps.empty() ? std::nullopt : std::optional(steps.back());
  }

  /// Describes a run as "run-01  train.seed=1".
  std::string describe(const Run& run) const {
    std::string text = run.result.name;
    for (std::size_t i = sweep_.overrides.fixed.size(); i < run.overrides.size(); ++i) {
      text += "  " + run.overrides[i];
    }
    return escaped(text);
  }

  /// Describes a value as "loss 0.1234 at step 600".
  std::string describe(const BestValue& best) const {
    return fmt::format("{} {} at step {}", options_.best_metric, format_value(best.value, 4),
                       format_count(best.step));
  }

  // ---- Training.

  /// The arguments of the process that trains a run. Also passes the config and the overrides to a
  /// resumed run, so that `train` compares them with its checkpoint.
  std::vector<std::string> arguments(const Run& run, std::uint64_t last_step) const {
    const std::string directory = folder(run).string();
    std::vector<std::string> arguments{"train", "--quiet"};
    if (sweep_.halving > 0) {
      arguments.insert(arguments.end(), {"--until", fmt::to_string(last_step)});
    }
    if (run.resumes) arguments.insert(arguments.end(), {"--resume", directory});
    arguments.push_back(sweep_.config);
    if (!run.resumes) arguments.push_back("train.run_dir=" + directory);
    const std::size_t threads = std::max<std::size_t>(read_cores().allowed / sweep_.jobs, 1);
    if (sweep_.jobs > 1) arguments.push_back(fmt::format("train.threads={}", threads));
    arguments.insert(arguments.end(), run.overrides.begin(), run.overrides.end());
    return arguments;
  }

  /// Trains the runs up to the step of the stage. All runs are saved when the function returns or
  /// throws.
  void train(const SweepStage& stage, Runs waiting) {
    // Without halving, the process of a run determines whether the run is finished.
    std::erase_if(waiting, [&](Run* run) {
      if (!saved_step(*run) || is_locked(folder(*run))) return false;
      return !require_own_folder(*run) ||
             (sweep_.halving > 0 && saved_step(*run).value_or(0) >= stage.step);
    });
    Runs training;
    const StopAtEnd stop{training};
    while (!waiting.empty() || !training.empty()) {
      if (signals_.stop() != 0) stopped_ = signal_exit_base + signals_.stop();
      if (stopped_ != 0) return;
      start_waiting(stage, waiting, training);
      collect_ended(stage, waiting, training);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }

  /// Returns whether the checkpoints in the folder of a run have its config. Otherwise marks the
  /// run as failed: the folder contains another run, for example after folders were exchanged.
  bool require_own_folder(Run& run) try {
    const RunDirectory directory(folder(run));
    const ResumePlan plan = plan_resume(directory, read_newest_of_run(directory).value(),
                                        {.config = sweep_.config, .overrides = run.overrides});
    for (const auto& [key, saved, expected] : compare_configs(plan.before, plan.config)) {
      // Some keys may change on resume, such as the number of steps and files that have moved.
      const bool has_moved = fs::path(saved).filename() == fs::path(expected).filename();
      const bool is_resolved = key == "train.epochs" || expected.ends_with('%');
      if (has_moved || is_resolved || !is_axis(key)) continue;
      fail(run, static_cast<int>(ExitCode::usage),
           fmt::format("{}: found the run of {}={}, expected {}", directory.path().string(), key,
                       saved, expected));
      return false;
    }
    return true;
  } catch (const UserError& error) {
    const std::string text = error.what();
    fail(run, static_cast<int>(exit_code(error)), text.substr(0, text.find('\n')));
    return false;
  }

  bool is_axis(const std::string& key) const {
    return std::ranges::find(sweep_.overrides.axes, key, &SweepAxis::key) !=
           sweep_.overrides.axes.end();
  }

  pid_t start(const Run& run, std::uint64_t last_step) const try {
    return start_this_program(arguments(run, last_step), errors(run));
  } catch (const std::system_error& error) {
    throw OutputError(fmt::format("{}: could not start the run: {}", escaped(errors(run).string()),
                                  error.code().message()),
                      "free some memory or disk space, or use fewer --jobs");
  }

  void start_waiting(const SweepStage& stage, Runs& waiting, Runs& training) const {
    const auto is_ready = [](const Run* run) { return run->retry <= Clock::now(); };
    while (training.size() < sweep_.jobs) {
      const auto ready = std::ranges::find_if(waiting, is_ready);
      if (ready == waiting.end()) return;
      Run& run = **ready;
      run.resumes = saved_step(run).has_value();
      run.process = start(run, stage.step);
      training.push_back(&run);
      waiting.erase(ready);
    }
  }

  void collect_ended(const SweepStage& stage, Runs& waiting, Runs& training) {
    Runs still_training;
    for (Run* run : training) {
      const std::optional<int> code = exit_code_of(run->process);
      if (!code) {
        still_training.push_back(run);
      } else if (*code == static_cast<int>(ExitCode::in_use)) {
        delay_locked(*run);
        waiting.insert(waiting.begin(), run);
      } else if (*code == static_cast<int>(ExitCode::usage) && was_saved_by_another(*run)) {
        waiting.insert(waiting.begin(), run);
      } else {
        report_end(*run, *code, stage.step);
      }
    }
    training = std::move(still_training);
  }

  /// Delays a run that another process has locked, for example a process of a killed sweep.
  void delay_locked(Run& run) {
    if (run.retry == Clock::time_point()) {
      print(fmt::format("{}  waits for another process that is training the run", describe(run)));
    }
    run.retry = Clock::now() + std::chrono::seconds(1);
  }

  /// Whether another process has saved a checkpoint of the run since this sweep last looked for a
  /// checkpoint.
  bool was_saved_by_another(const Run& run) const { return !run.resumes && saved_step(run); }

  void report_end(Run& run, int code, std::uint64_t last_step) {
    if (code == static_cast<int>(ExitCode::out_of_time)) {
      stopped_ = code;
    } else if (code == 0) {
      report_trained(run, last_step);
    } else if (stopped_ == 0) {
      fail(run, code, read_last_error(run));
    }
  }

  void report_trained(Run& run, std::uint64_t last_step) {
    std::error_code ignored;
    if (fs::file_size(errors(run), ignored) == 0) fs::remove(errors(run), ignored);
    run.failed = 0;
    const auto found = best(run, last_step);
    if (run.failed != 0) return;
    print(fmt::format("{}  step {}{}", describe(run), format_count(saved_step(run).value_or(0)),
                      found ? ": best " + describe(*found) : ""));
  }

  void fail(Run& run, int code, const std::string& error) {
    run.failed = code;
    print(fmt::format("{}  failed with exit code {}{}", describe(run), code,
                      error.empty() ? "" : ": " + escaped(error)));
  }

  /// The last error that the process of a run printed.
  std::string read_last_error(const Run& run) const try {
    constexpr std::string_view mark = "error: ";
    const std::string text = read_run_file(errors(run)).value_or("");
    const std::size_t last = text.rfind(mark);
    if (last == text.npos) return "";
    return text.substr(last + mark.size(), text.find('\n', last) - last - mark.size());
  } catch (const FileError& error) {
    return error.what();
  }

  // ---- Results.

  /// The metrics of a run: metrics.csv, or the copy in its newest checkpoint if the file is missing
  /// or damaged. Empty for a run without a checkpoint.
  std::string read_metrics(const Run& run) const {
    const fs::path path = folder(run) / "metrics.csv";
    try {
      std::string csv = read_run_file(path).value_or("");
      require_metrics(csv, escaped(path.string()));
      return csv;
    } catch (const UserError&) {
      const auto newest = read_newest_of_run(RunDirectory(folder(run)));
      return newest ? newest->arrays.get_text("train/metrics") : "";
    }
  }

  /// The best value of a run up to a step. A run without usable metrics fails.
  std::optional<BestValue> best(Run& run, std::uint64_t last_step) try {
    const std::string csv = read_metrics(run);
    return csv.empty() ? std::nullopt : best_value(csv, options_.best_metric, last_step);
  } catch (const UserError& error) {
    if (run.failed == 0) fail(run, static_cast<int>(exit_code(error)), error.what());
    return std::nullopt;
  }

  std::vector<Setting> group_by_setting(const Runs& runs) const {
    std::vector<SweepResult> results;
    for (const Run* run : runs) results.push_back(run->result);
    return tapestry::group_by_setting(sweep_.overrides.axes, results);
  }

  /// The runs of the `count` settings with the best mean values up to a step, in the order of
  /// `runs`.
  Runs select_best(const Runs& runs, std::uint64_t last_step, std::size_t count) {
    for (Run* run : runs) {
      run->result.best = run->failed ? std::nullopt : best(*run, last_step);
    }
    const std::vector<Setting> settings = group_by_setting(runs);
    std::vector<std::size_t> kept;
    for (const std::size_t i : best_settings(settings, options_.best_metric, count)) {
      kept.insert(kept.end(), settings[i].runs.begin(), settings[i].runs.end());
    }
    std::ranges::sort(kept);
    Runs selected;
    for (const std::size_t i : kept) selected.push_back(runs[i]);
    return selected;
  }

  /// "best: run-03  model.dropout=0.1: loss 1.9 at step 20", or for several seeds "best mean:
  /// model.dropout=0.1: loss 2.1 over 3 runs", since the best of several seeds is better by chance.
  /// Empty if there is nothing to compare.
  std::string describe_best(const std::vector<Setting>& settings) const {
    const Setting& best = settings[best_settings(settings, options_.best_metric, 1).front()];
    if (best.bests.empty() || settings.size() < 2) return "";
    if (!is_axis("train.seed")) {
      return fmt::format("best: {}: {}; ", describe(runs_[best.runs.front()]),
                         describe(best.bests.front()));
    }
    const std::size_t count = best.bests.size();
    const auto overrides = overrides_of(sweep_.overrides.axes, best);
    return fmt::format("best mean: {}: {} {} over {} run{}; ",
                       escaped(fmt::format("{}", fmt::join(overrides, " "))), options_.best_metric,
                       format_value(*best.mean(), 4), count, count == 1 ? "" : "s");
  }

  /// Whether the folder of a run contains a different run.
  static bool is_foreign(const Run& run) { return run.failed == static_cast<int>(ExitCode::usage); }

  /// Determines the final result of a run.
  void finish(Run& run, bool is_in_last_stage) {
    SweepResult& result = run.result;
    result.steps = saved_step(run).value_or(0);
    result.best = is_foreign(run) ? std::nullopt : best(run, result.steps);
    result.state = run.failed != 0 ? "failed" : is_in_last_stage ? "finished" : "abandoned";
  }

  /// Writes the tables and the report, and prints the best setting. Returns the exit code.
  int write_results(const Runs& last_stage) {
    const std::string& metric = options_.best_metric;
    const std::vector<SweepAxis>& axes = sweep_.overrides.axes;
    std::vector<SweepResult> results;
    int code = 0;
    for (Run& run : runs_) {
      finish(run, std::ranges::find(last_stage, &run) != last_stage.end());
      results.push_back(run.result);
      if (code == 0) code = run.failed;
    }
    const bool has_finished =
        std::ranges::find(results, "finished", &SweepResult::state) != results.end();
    const fs::path table = sweep_.folder / "sweep.csv";
    write_file_durably(table, sweep_csv(axes, results, metric));
    const std::vector<Setting> settings = tapestry::group_by_setting(axes, results);
    if (const auto seeds = summarize_seeds(axes, settings, metric)) {
      write_file_durably(sweep_.folder / "sweep-groups.csv", seeds->csv);
      print(seeds->text.substr(0, seeds->text.size() - 1));
    }
    if (has_finished) {
      print(fmt::format("{}table: {}", describe_best(settings), escaped(table.string())));
    }
    write_report();
    flush_standard_output(print_error_);
    return has_finished ? 0 : code;
  }

  /// Writes the report of the runs that have a checkpoint, with their curves and config
  /// differences. The results of the sweep do not depend on it.
  void write_report() const try {
    ReportData data({.details = false});
    bool has_run = false;
    for (const Run& run : runs_) {
      if (saved_step(run).value_or(0) == 0 || is_foreign(run)) continue;
      data.add(folder(run).string());
      has_run = true;
    }
    if (has_run) tapestry::write_report(data, sweep_.folder / report_file_name);
  } catch (const std::exception& error) {
    warn(fmt::format("the report of the sweep could not be written: {}", error.what()));
  }

  /// Prints a line and flushes it. A failure is reported at the end of the sweep, so that the runs
  /// can continue.
  void print(const std::string& line) {
    errno = 0;
    const bool is_printed =
        std::fputs((line + "\n").c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
    if (!is_printed && print_error_ == 0) print_error_ = errno;
  }

  const Sweep& sweep_;
  RunSignals signals_;
  std::vector<Run> runs_;
  const TrainOptions options_;  ///< options of the first run
  int stopped_ = 0;             ///< exit code if the sweep was stopped
  int print_error_ = 0;         ///< errno of the first line that could not be printed
};

}  // namespace

int run_sweep(const Sweep& sweep) { return SweepRunner(sweep).run(); }

}  // namespace tapestry
