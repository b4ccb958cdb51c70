#include "train/sweep/sweep.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <set>
#include <span>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "data/io/durable_file.h"
#include "data/io/file.h"
#include "data/io/number.h"
#include "data/io/random.h"
#include "data/io/utf8.h"
#include "train/base/error.h"
#include "train/base/format.h"
#include "train/base/program.h"
#include "train/checkpoint/metrics.h"
#include "train/checkpoint/run_directory.h"
#include "train/config/config.h"
#include "train/report/curve.h"
#include "train/report/report_data.h"
#include "train/system/interruptions.h"
#include "train/system/machine.h"
#include "train/system/standard_streams.h"

namespace tapestry {

// ---- The plan.

namespace {

/// Divides a text at commas that are not in brackets, braces or quotes.
std::vector<std::string> split_values(std::string_view text) {
  std::vector<std::string> values(1);
  std::size_t depth = 0;
  char quote = '\0';
  for (const char c : text) {
    if (quote != '\0') {
      if (c == quote) quote = '\0';
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
    if (c == ',' && depth == 0 && quote == '\0') {
      values.emplace_back();
    } else {
      values.back() += c;
    }
  }
  return values;
}

[[noreturn]] void reject(const std::string& override, const std::string& found,
                         const std::string& hint) {
  throw UsageError(fmt::format("{}: {}", escaped(override), found), hint);
}

/// The numbers of `1..5`; empty if the text is no range.
std::vector<std::string> range_values(const std::string& override, std::string_view text) {
  const std::size_t dots = text.find("..");
  if (dots == text.npos) return {};
  const auto first = parse_number<std::int64_t>(text.substr(0, dots)),
             last = parse_number<std::int64_t>(text.substr(dots + 2));
  if (!first || !last) return {};
  // The difference of unsigned numbers cannot overflow.
  const auto steps = static_cast<std::uint64_t>(*last) - static_cast<std::uint64_t>(*first);
  if (*last < *first || steps >= max_sweep_runs) {
    reject(override, fmt::format("expected a range of 1 to {} numbers", max_sweep_runs),
           "write it as FIRST..LAST");
  }
  std::vector<std::string> values;
  for (std::int64_t value = *first;; ++value) {
    values.push_back(fmt::to_string(value));
    if (value == *last) return values;
  }
}

}  // namespace

SweepOverrides parse_sweep_overrides(const std::vector<std::string>& overrides) {
  SweepOverrides parsed;
  std::set<std::string> keys;
  for (const std::string& override : overrides) {
    const std::size_t equals = override.find('=');
    if (equals == override.npos || equals == 0) {
      reject(override, "expected section.key=value",
             "write one or several values, such as schedule.learning_rate=1e-4,3e-4");
    }
    const std::string key = override.substr(0, equals);
    if (!keys.insert(key).second) {
      reject(override, "found the key a second time",
             "write all of its values once, such as train.seed=1,2,3");
    }
    const std::string_view text = std::string_view(override).substr(equals + 1);
    std::vector<std::string> values = range_values(override, text);
    if (values.empty()) values = split_values(text);
    if (values.size() > 1 && std::ranges::find(values, "") != values.end()) {
      reject(override, "found an empty value", "remove one of the commas");
    }
    if (std::set<std::string>(values.begin(), values.end()).size() < values.size()) {
      reject(override, "found a value twice", "write each value once");
    }
    if (values.size() == 1) {
      parsed.fixed.push_back(key + "=" + values.front());
    } else {
      parsed.axes.push_back({.key = key, .values = std::move(values)});
    }
  }
  return parsed;
}

std::vector<SweepValues> all_combinations(const std::vector<SweepAxis>& axes) {
  std::vector<SweepValues> combinations(1);
  for (const SweepAxis& axis : axes) {
    if (combinations.size() * axis.values.size() > max_sweep_runs) {
      throw UsageError(
          fmt::format("found more than {} combinations of values, expected fewer", max_sweep_runs),
          "try fewer values, or draw some of the combinations with --samples");
    }
    std::vector<SweepValues> longer;
    for (const auto& combination : combinations) {
      for (const std::string& value : axis.values) {
        longer.push_back(combination);
        longer.back().push_back(value);
      }
    }
    combinations = std::move(longer);
  }
  return combinations;
}

std::vector<SweepValues> sampled_combinations(const std::vector<SweepAxis>& axes, std::size_t count,
                                              std::uint64_t seed) {
  std::size_t total = 1;
  for (const SweepAxis& axis : axes) total = std::min(total * axis.values.size(), count + 1);
  if (total <= count) return all_combinations(axes);
  RandomDraws random(seed, DrawPurpose::sweep_sample, 0);
  std::set<std::vector<std::size_t>> drawn;  // the indices of the values of each combination
  while (drawn.size() < count) {
    std::vector<std::size_t> indices;
    for (const SweepAxis& axis : axes) indices.push_back(random.below(axis.values.size()));
    drawn.insert(std::move(indices));
  }
  std::vector<SweepValues> sample;
  for (const auto& indices : drawn) {
    SweepValues& values = sample.emplace_back();
    for (std::size_t i = 0; i < axes.size(); ++i) values.push_back(axes[i].values[indices[i]]);
  }
  return sample;
}

std::vector<SweepStage> sweep_stages(std::size_t runs, std::size_t factor, std::uint64_t steps,
                                     std::uint64_t validate_every) {
  if (factor == 0) return {{.step = steps, .runs = runs}};
  std::vector<std::size_t> sizes{runs};  // of the stages, if the steps suffice for them
  while (sizes.back() > 1) sizes.push_back((sizes.back() + factor - 1) / factor);
  std::vector<std::uint64_t> ends;  // of the stages, the last one first
  for (std::uint64_t exact = steps; ends.size() < sizes.size(); exact /= factor) {
    const std::uint64_t validated =
        std::max<std::uint64_t>((exact + validate_every - 1) / validate_every, 1) * validate_every;
    const std::uint64_t end = std::min(validated, steps);
    if (!ends.empty() && end == ends.back()) break;
    ends.push_back(end);
  }
  std::vector<SweepStage> stages;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    stages.push_back({.step = ends[ends.size() - 1 - i], .runs = sizes[i]});
  }
  return stages;
}

// ---- Results.

namespace {

std::string csv_line(const std::vector<std::string>& fields) {
  std::string line;
  for (const std::string& field : fields) {
    if (!line.empty()) line += ',';
    if (field.find_first_of(",\"\r\n") == field.npos) {
      line += field;
      continue;
    }
    line += '"';
    for (const char c : field) line += c == '"' ? "\"\"" : std::string(1, c);
    line += '"';
  }
  return line + '\n';
}

std::string csv_number(double value) { return fmt::format("{:.17g}", value); }

/// Mean, sample standard deviation, and half the width of the 95 % confidence interval of the mean;
/// NaN without values, and the last two of one value.
struct Interval {
  double mean, deviation, half_width;
};
Interval student_interval(const std::vector<double>& values) {
  const auto n = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  if (values.size() < 2) return {.mean = mean, .deviation = NAN, .half_width = NAN};
  double squares = 0.0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  const double deviation = std::sqrt(squares / (n - 1));
  return {.mean = mean,
          .deviation = deviation,
          .half_width = student_t_975(values.size() - 1) * deviation / std::sqrt(n)};
}

}  // namespace

std::optional<BestValue> best_value(const std::string& metrics_csv, const std::string& metric,
                                    std::uint64_t last_step) {
  std::optional<BestValue> best;
  for (const auto& [step, value] : validation_values(metrics_csv, metric)) {
    if (step > last_step || !std::isfinite(value)) continue;
    if (!best || is_better(metric, value, best->value)) best = {.value = value, .step = step};
  }
  return best;
}

std::vector<std::size_t> best_runs(const std::vector<std::optional<BestValue>>& values,
                                   const std::string& metric, std::size_t count) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    if (!values[a] || !values[b]) return values[a].has_value() && !values[b].has_value();
    return is_better(metric, values[a]->value, values[b]->value);
  });
  order.resize(std::min(count, order.size()));
  std::ranges::sort(order);
  return order;
}

std::string sweep_csv(const std::vector<SweepAxis>& axes, const std::vector<SweepResult>& results,
                      const std::string& metric) {
  std::vector<std::string> heading{"run"};
  for (const SweepAxis& axis : axes) heading.push_back(axis.key);
  heading.insert(heading.end(), {"state", "steps", metric, "best_step"});
  std::string csv = csv_line(heading);
  for (const SweepResult& result : results) {
    std::vector<std::string> fields{result.run};
    fields.insert(fields.end(), result.values.begin(), result.values.end());
    fields.push_back(result.state);
    fields.push_back(fmt::to_string(result.steps));
    fields.push_back(result.best ? csv_number(result.best->value) : "");
    fields.push_back(result.best ? fmt::to_string(result.best->step) : "");
    csv += csv_line(fields);
  }
  return csv;
}

std::optional<SeedTable> summarize_seeds(const std::vector<SweepAxis>& axes,
                                         const std::vector<SweepResult>& results,
                                         const std::string& metric) {
  const auto seed = std::ranges::find(axes, "train.seed", &SweepAxis::key);
  if (seed == axes.end()) return std::nullopt;
  std::vector<SweepAxis> others = axes;
  others.erase(others.begin() + (seed - axes.begin()));
  std::vector<std::pair<SweepValues, std::vector<double>>> groups;  // with their best values
  for (const SweepResult& result : results) {
    SweepValues values = result.values;
    values.erase(values.begin() + (seed - axes.begin()));
    auto group = std::ranges::find(groups, values, &decltype(groups)::value_type::first);
    if (group == groups.end()) group = groups.insert(group, {std::move(values), {}});
    if (result.best && result.state == "finished") group->second.push_back(result.best->value);
  }
  std::vector<std::string> heading;
  for (const SweepAxis& axis : others) heading.push_back(axis.key);
  heading.insert(heading.end(), {"runs", "mean", "deviation", "low", "high"});
  SeedTable table{.text = "", .csv = csv_line(heading)};
  for (const auto& [values, bests] : groups) {
    for (std::size_t i = 0; i < others.size(); ++i) {
      table.text += escaped(fmt::format("{}={}  ", others[i].key, values[i]));
    }
    std::vector<std::string> fields = values;
    fields.push_back(fmt::to_string(bests.size()));
    const auto [mean, deviation, half_width] = student_interval(bests);
    if (bests.empty()) {
      table.text += "no finished run\n";
      fields.insert(fields.end(), {"", "", "", ""});
    } else if (bests.size() == 1) {
      table.text += fmt::format("1 run: {} {:.4f}\n", metric, mean);
      fields.insert(fields.end(), {csv_number(mean), "", "", ""});
    } else {
      const double low = mean - half_width, high = mean + half_width;
      table.text +=
          fmt::format("{} runs: {} {:.4f}, deviation {:.4f}, 95 % interval {:.4f} to {:.4f}\n",
                      bests.size(), metric, mean, deviation, low, high);
      fields.insert(fields.end(),
                    {csv_number(mean), csv_number(deviation), csv_number(low), csv_number(high)});
    }
    table.csv += csv_line(fields);
  }
  return table;
}

// ---- Training.

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

/// Starts this program with its standard error in a file and no other input or output, in a process
/// separate group, as Ctrl-C is for the sweep. Returns its id; throws OutputError.
pid_t start_process(std::vector<std::string> arguments, const fs::path& errors) {
  arguments.insert(arguments.begin(), program_name());
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_addopen(&files, STDERR_FILENO, errors.c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0666);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  pid_t id = 0;
  const int error =
      ::posix_spawn(&id, "/proc/self/exe", &files, &attributes, pointers.data(), environ);
  ::posix_spawn_file_actions_destroy(&files);
  ::posix_spawnattr_destroy(&attributes);
  if (error == 0) return id;
  throw OutputError(fmt::format("{}: could not start the run: {}", escaped(errors.string()),
                                std::generic_category().message(error)),
                    "free some memory or disk, or use fewer --jobs");
}

class SweepRunner {
 public:
  /// throws  ConfigError, UsageError if the runs have no valid configs or cannot be compared
  explicit SweepRunner(const Sweep& sweep) : sweep_(sweep) {
    const std::size_t digits = std::max<std::size_t>(2, fmt::to_string(sweep.runs.size()).size());
    for (std::size_t i = 0; i < sweep.runs.size(); ++i) {
      Run& run =
          runs_.emplace_back(Run{.number = i, .name = fmt::format("run-{:0{}}", i + 1, digits)});
      run.overrides = sweep.overrides.fixed;
      for (std::size_t axis = 0; axis < sweep.overrides.axes.size(); ++axis) {
        run.overrides.push_back(sweep.overrides.axes[axis].key + "=" + sweep.runs[i][axis]);
      }
      const Config config = load_config(sweep.config, run.overrides);
      if (i == 0) first_config_ = config;
      if (config.train.best_metric != first_config_.train.best_metric) {
        throw UsageError("train.best_metric: found several values, expected one for all runs",
                         "runs are compared by it");
      }
      if (sweep.halving > 0 &&
          (config.train.steps != first_config_.train.steps || config.train.epochs != 0)) {
        throw UsageError(
            "--halving: expected the same train.steps for all runs, and no train.epochs",
            "leave out --halving, or set train.steps");
      }
    }
    ::signal(SIGCHLD, SIG_DFL);  // there are no exit codes where it is ignored
  }

  int run() {
    create_folder_durably(sweep_.folder);
    const RunLock lock(sweep_.folder);
    Runs runs;
    for (Run& run : runs_) runs.push_back(&run);
    const TrainOptions& options = first_config_.train;
    const auto stages =
        sweep_stages(runs.size(), sweep_.halving, options.steps, options.validate_every);
    std::uint64_t last_step = 0;
    for (const SweepStage& stage : stages) {
      if (stage.runs < runs.size()) runs = select_best(runs, last_step, stage.runs);
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
  /// A run of the sweep.
  struct Run {
    std::size_t number;  ///< from 0
    std::string name;    ///< of its directory: run-01, with the digits that the last one needs
    std::vector<std::string> overrides{};
    pid_t process = 0;          ///< while it is being trained
    bool resumes = false;       ///< whether it had a checkpoint when the process started
    Clock::time_point retry{};  ///< when a run that another process had locked is tried again
    int failed = 0;             ///< exit code
  };
  using Runs = std::vector<Run*>;

  fs::path folder(const Run& run) const { return sweep_.folder / run.name; }
  fs::path errors(const Run& run) const { return sweep_.folder / (run.name + ".err"); }

  /// "run-01  train.seed=1"
  std::string describe(const Run& run) const {
    std::string text = run.name;
    for (std::size_t i = sweep_.overrides.fixed.size(); i < run.overrides.size(); ++i) {
      text += "  " + run.overrides[i];
    }
    return escaped(text);
  }

  /// The arguments of the process that trains a run. A resumed run is compared with its config and
  /// overrides, as `train` does.
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

  // ---- Training.

  /// The step of the newest checkpoint; 0 without one.
  std::uint64_t steps_done(const Run& run) const {
    const auto steps = RunDirectory(folder(run)).steps();
    return steps.empty() ? 0 : steps.back();
  }

  /// Trains the runs up to the step of the stage. When it returns or throws, all have been saved.
  void train(const SweepStage& stage, Runs runs) {
    // Without stages the process of a run finds out whether it has ended.
    std::erase_if(
        runs, [&](const Run* run) { return sweep_.halving > 0 && steps_done(*run) >= stage.step; });
    Runs training;
    const auto stop = [&] {
      for (const Run* run : training) ::kill(run->process, SIGTERM);
      for (Run* run : training) {
        retry_interrupted([&] { return ::waitpid(run->process, nullptr, 0); });
      }
    };
    try {
      train(stage, runs, training);
    } catch (...) {
      stop();
      throw;
    }
    stop();
  }

  /// For the `waiting` runs; `training` are the ones left when the sweep is stopped.
  void train(const SweepStage& stage, Runs& waiting, Runs& training) {
    while (!waiting.empty() || !training.empty()) {
      if (signals_.stop() != 0) stopped_ = signal_exit_base + signals_.stop();
      if (stopped_ != 0) return;
      const auto is_ready = [](const Run* run) { return run->retry <= Clock::now(); };
      for (auto ready = std::ranges::find_if(waiting, is_ready);
           ready != waiting.end() && training.size() < sweep_.jobs;
           ready = std::ranges::find_if(waiting, is_ready)) {
        Run& run = **ready;
        run.resumes = !RunDirectory(folder(run)).steps().empty();
        run.process = start_process(arguments(run, stage.step), errors(run));
        training.push_back(*ready);
        waiting.erase(ready);
      }
      std::erase_if(training, [&](Run* run) {
        int status = 0;
        const pid_t ended =
            retry_interrupted([&] { return ::waitpid(run->process, &status, WNOHANG); });
        if (ended == 0) return false;
        const int code =
            WIFSIGNALED(status) ? signal_exit_base + WTERMSIG(status) : WEXITSTATUS(status);
        if (!ends(*run, code, stage.step)) waiting.insert(waiting.begin(), run);
        return true;
      });
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }

  /// Whether the run has ended by an exit code of its process. It is tried again while another
  /// process has locked it, such as one of a killed sweep, or if that has saved it since this sweep
  /// looked for a checkpoint.
  bool ends(Run& run, int code, std::uint64_t last_step) {
    if (code == static_cast<int>(ExitCode::in_use)) {
      if (run.retry == Clock::time_point()) {
        print(fmt::format("{}  waits for another process, which trains it", describe(run)));
      }
      run.retry = Clock::now() + std::chrono::seconds(1);
      return false;
    }
    const bool is_saved = !RunDirectory(folder(run)).steps().empty();
    if (code == static_cast<int>(ExitCode::usage) && !run.resumes && is_saved) return false;
    if (code == static_cast<int>(ExitCode::out_of_time)) {
      stopped_ = code;
    } else if (code != 0) {
      if (stopped_ == 0) fail(run, code, read_last_error(run));
    } else {
      std::error_code ignored;
      if (fs::file_size(errors(run), ignored) == 0) fs::remove(errors(run), ignored);
      run.failed = 0;
      const auto found = best(run, last_step);
      if (run.failed != 0) return true;
      print(fmt::format(
          "{}  step {}{}", describe(run), format_count(steps_done(run)),
          found ? fmt::format(": best {} {:.4f} at step {}", first_config_.train.best_metric,
                              found->value, format_count(found->step))
                : ""));
    }
    return true;
  }

  void fail(Run& run, int code, const std::string& error) {
    run.failed = code;
    print(fmt::format("{}  failed with exit code {}{}", describe(run), code,
                      error.empty() ? "" : ": " + escaped(error)));
  }

  /// The last error that the process of a run has printed.
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

  /// The best value of a run up to a step. A run whose metrics.csv is damaged fails.
  std::optional<BestValue> best(Run& run, std::uint64_t last_step) try {
    const fs::path path = folder(run) / "metrics.csv";
    const std::string csv = read_run_file(path).value_or("");
    if (csv.empty()) return std::nullopt;
    require_metrics(csv, escaped(path.string()));
    return best_value(csv, first_config_.train.best_metric, last_step);
  } catch (const UserError& error) {
    if (run.failed == 0) fail(run, static_cast<int>(exit_code(error)), error.what());
    return std::nullopt;
  }

  /// The `count` runs with the best values up to a step, in their order.
  Runs select_best(const Runs& runs, std::uint64_t last_step, std::size_t count) {
    std::vector<std::optional<BestValue>> values;
    for (Run* run : runs) values.push_back(run->failed ? std::nullopt : best(*run, last_step));
    Runs kept;
    for (const std::size_t i : best_runs(values, first_config_.train.best_metric, count)) {
      kept.push_back(runs[i]);
    }
    return kept;
  }

  /// Writes the tables and the report, and prints the best run. Returns the exit code.
  int write_results(const Runs& last_stage) {
    const std::string& metric = first_config_.train.best_metric;
    const std::vector<SweepAxis>& axes = sweep_.overrides.axes;
    std::vector<SweepResult> results;
    std::vector<std::optional<BestValue>> finished;
    int code = 0;
    for (Run& run : runs_) {
      const std::uint64_t steps = steps_done(run);
      SweepResult& result = results.emplace_back(SweepResult{.run = run.name,
                                                             .values = sweep_.runs[run.number],
                                                             .steps = steps,
                                                             .best = best(run, steps)});
      if (std::ranges::find(last_stage, &run) == last_stage.end()) result.state = "abandoned";
      if (run.failed != 0) result.state = "failed";
      if (code == 0) code = run.failed;
      finished.push_back(result.state == "finished" ? result.best : std::nullopt);
    }
    const fs::path table = sweep_.folder / "sweep.csv";
    const std::string csv = sweep_csv(axes, results, metric);
    write_file_durably(table, std::as_bytes(std::span(csv)));
    if (const auto seeds = summarize_seeds(axes, results, metric)) {
      write_file_durably(sweep_.folder / "sweep-groups.csv", std::as_bytes(std::span(seeds->csv)));
      print(seeds->text.substr(0, seeds->text.size() - 1));
    }
    const std::size_t best = best_runs(finished, metric, 1).front();
    if (finished[best]) {
      print(fmt::format("best: {}: {} {:.4f} at step {}; table: {}", describe(runs_[best]), metric,
                        finished[best]->value, format_count(finished[best]->step),
                        escaped(table.string())));
    }
    write_report();
    flush_standard_output(print_error_);
    const bool has_finished =
        std::ranges::find(results, "finished", &SweepResult::state) != results.end();
    return has_finished ? 0 : code;
  }

  /// The report of the runs that have a checkpoint, with curves and differences of their configs.
  /// The results do not depend on it.
  void write_report() const try {
    ReportData data({.details = false});
    bool has_run = false;
    for (const Run& run : runs_) {
      if (steps_done(run) == 0) continue;
      data.add(folder(run).string());
      has_run = true;
    }
    if (has_run) tapestry::write_report(data, sweep_.folder / report_file_name);
  } catch (const std::exception& error) {
    warn(fmt::format("the report of the sweep could not be written: {}", error.what()));
  }

  /// Prints a line at once. The sweep reports at its end if that has failed, since the runs
  /// continue.
  void print(const std::string& line) {
    errno = 0;
    const bool is_printed =
        std::fputs((line + "\n").c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
    if (!is_printed && print_error_ == 0) print_error_ = errno;
  }

  const Sweep& sweep_;
  RunSignals signals_;
  Config first_config_;  ///< of the first run
  std::vector<Run> runs_;
  int stopped_ = 0;      ///< the exit code if the sweep was stopped
  int print_error_ = 0;  ///< errno of the first line that could not be printed
};

}  // namespace

int run_sweep(const Sweep& sweep) { return SweepRunner(sweep).run(); }

}  // namespace tapestry
