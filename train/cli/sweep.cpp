// SPDX-License-Identifier: BSD-3-Clause
#include "train/sweep/sweep.h"
#include "train/config/load.h"

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "data/io/utf8.h"
#include "train/base/error.h"
#include "train/cli/command.h"
#include "train/config/config.h"
#include "train/config/error.h"

namespace tapestry {
namespace sweep_cli {
namespace {

struct Arguments {
  std::string config;
  std::vector<std::string> overrides;  ///< section.key=value, with one or several values
  std::string output;                  ///< empty: runs/NAME-sweep
  std::size_t jobs = 1;
  std::size_t samples = 0;  ///< number of random combinations; 0: all combinations
  std::size_t seed = 1;
  std::size_t halving = 0;
};

std::vector<std::vector<std::string>> select_combinations(const Arguments& arguments,
                                                          const std::vector<SweepAxis>& axes) {
  if (arguments.samples == 0) return all_combinations(axes);
  return sampled_combinations(axes, arguments.samples, arguments.seed);
}

/// Rejects train.run_dir, since each run is trained in a separate directory.
void reject_run_dir(const std::vector<std::string>& overrides) {
  for (const std::string& override : overrides) {
    if (!names_run_dir({override})) continue;
    reject_option(
        override,
        "found a run directory, expected no value: a sweep creates a directory for each run",
        "choose the folder of the runs with --output FOLDER");
  }
}

/// Requires a new folder, an empty folder or the folder of a sweep, since a sweep writes reports
/// and runs into it.
void require_sweep_folder(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const auto reject = [&](const std::string& found) {
    throw UsageError(fmt::format("{}: found {}, expected a new or empty folder, or the folder of a "
                                 "sweep",
                                 escaped(folder), found),
                     "choose another folder with --output FOLDER");
  };
  if (fs::is_directory(fs::path(folder) / "checkpoints", ignored)) reject("a run");
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with('.') || name.starts_with("run-") || name.starts_with("sweep") ||
        name == "report.html") {
      continue;
    }
    reject(fmt::format("the file {}", escaped(name)));
  }
}

int run(const Arguments& arguments) {
  reject_run_dir(arguments.overrides);
  const SweepOverrides overrides = parse_sweep_overrides(arguments.overrides);
  if (overrides.axes.empty()) {
    throw UsageError(
        "found no key with several values, expected at least one",
        "write a list or range, such as schedule.learning_rate=1e-4,3e-4 or train.seed=1..5");
  }
  if (arguments.halving == 1) {
    throw UsageError("--halving: found 1, expected 0 or a factor of at least 2",
                     "use --halving 2, which keeps the better half of the runs");
  }
  const std::string folder =
      arguments.output.empty() ? default_run_dir(arguments.config) + "-sweep" : arguments.output;
  require_sweep_folder(folder);
  return run_sweep({.folder = folder,
                    .config = arguments.config,
                    .overrides = overrides,
                    .runs = select_combinations(arguments, overrides.axes),
                    .jobs = arguments.jobs,
                    .halving = arguments.halving});
}

void define(CLI::App& command, Arguments& arguments) {
  add_path(command, "CONFIG", arguments.config, "Config file (YAML)")->required();
  command.add_option(
      "OVERRIDES", arguments.overrides,
      "Config keys with one value or several: model.dropout=0.1,0.3 or train.seed=1..5");
  add_path(command, "--output", arguments.output,
           "Folder of the runs; default: runs/NAME-sweep for NAME.yaml")
      ->type_name("FOLDER");
  add_value(command, "--jobs", arguments.jobs, between(1, 1'024),
            "Number of runs to train at the same time; they share the cores");
  add_value(command, "--samples", arguments.samples, between(0, max_sweep_runs),
            "Number of random combinations to train; 0: all combinations");
  add_value(command, "--seed", arguments.seed, between(0, 1'000'000'000),
            "Random seed for --samples");
  add_value(command, "--halving", arguments.halving, between(0, 100),
            "Successive halving: train all runs for a few steps, then repeatedly keep the best "
            "1/FACTOR of them and train these for FACTOR times the steps; 0: train all runs to "
            "the end")
      ->type_name("FACTOR");
  command.footer(
      "Each run has a directory FOLDER/run-NN, which all other commands accept. FOLDER/sweep.csv "
      "lists\n"
      "the best value of train.best_metric of each run; FOLDER/report.html shows the curves. To "
      "continue\n"
      "a stopped sweep, repeat the command; the results are the same.\n"
      "Examples:\n  tapestry sweep configs/copy.yaml schedule.learning_rate=3e-4,1e-3 "
      "train.seed=1..3\n"
      "  tapestry sweep configs/copy.yaml model.dropout=0,0.1,0.3 model.d_ff=128,256 --samples 4\n"
      "  tapestry sweep configs/copy.yaml schedule.learning_rate=1e-4,3e-4,1e-3,3e-3 --halving 2");
}

}  // namespace
}  // namespace sweep_cli

extern const Command sweep_command{
    .name = "sweep",
    .purpose = "Train a run for each combination of values, and compare them",
    .define = with_arguments(sweep_cli::define, sweep_cli::run)};

}  // namespace tapestry
