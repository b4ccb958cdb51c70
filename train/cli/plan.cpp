#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "train/cli/command.h"
#include "train/cli/new_run.h"
#include "train/cli/plan_report.h"
#include "train/config/error.h"
#include "train/error.h"
#include "train/models/pretrained.h"
#include "train/run_description.h"
#include "train/tasks/task.h"
#include "train/tasks/task_data.h"
#include "train/training_run.h"

namespace tapestry {
namespace plan_cli {
namespace {

using Clock = TimeLimit::Clock;

struct Arguments {
  std::string config;
  std::vector<std::string> overrides;  ///< section.key=value
  ParallelOptions parallel;
  double seconds = 3.0;  ///< PlanOptions::seconds
  bool json = false;
};

/// The directory of a run that exists already, which `train` refuses.
std::optional<Limit> find_taken_directory(const RunDirectory& directory) {
  try {
    refuse_to_replace_files(directory);
    refuse_to_replace_run(directory);
  } catch (const UserError& error) {
    std::string text = error.what();
    return Limit{.what = "train refuses the run directory: " + text.substr(0, text.find('\n')),
                 .change =
                     "choose another train.run_dir; a run is resumed with --resume and replaced "
                     "with --fresh"};
  }
  return std::nullopt;
}

PlanReport make_report(const Arguments& arguments, Clock::time_point started) {
  Config config = load_new_config(arguments.config, arguments.overrides);
  const InitialState initial = load_initial_state(config);
  complete_new_config(arguments.config, initial.corpus, config);
  require_work_for_all(arguments.parallel.processes, config);
  require_memory_for_model(config, initial.corpus, read_available_memory());
  StepComputer computer(config, initial.corpus);
  PlanReport report;
  if (initial.model) report.description = computer.initialize(*initial.model);
  const Task& task = find_task(config);
  try_network(config, computer.model(),
              make_batch(initial.corpus.training(), std::array<std::size_t, 1>{0},
                         batch_rules(config, initial.corpus.target_vocabulary.size())));
  for (std::string& line :
       describe_run(computer, config.train.run_dir, arguments.parallel.processes)) {
    report.description.push_back(std::move(line));
  }
  report.largest_step = task.describe_size(largest_batches(initial.corpus, config).front());
  report.targets = task.words(config).targets;
  report.plan = plan_run(
      computer,
      {.seconds = arguments.seconds, .started = started, .costs = arguments.parallel.simulates()});
  report.limits = find_limits(report.plan, config);
  if (const auto taken = find_taken_directory(RunDirectory(config.train.run_dir))) {
    report.limits.insert(report.limits.begin(), *taken);
  }
  report.parallel = plan_processes(arguments.parallel, computer, report.plan);
  return report;
}

Action define(CLI::App& command) {
  const auto arguments = std::make_shared<Arguments>();
  command.add_option("CONFIG", arguments->config, "Config file (YAML)")
      ->required()
      ->check(not_empty());
  command.add_option("OVERRIDES", arguments->overrides,
                     "Config keys with other values, such as model.d_model=128");
  command
      .add_option("--processes", arguments->parallel.processes,
                  "Also print how this number of processes would divide a step, and its "
                  "simulated time")
      ->check(within(between(1, 1'000'000)))
      ->capture_default_str();
  command
      .add_option("--bandwidth", arguments->parallel.bandwidth,
                  "Network bandwidth of each process in Gbit/s, for the simulation")
      ->check(within(between_reals(0.001, 1e6)))
      ->capture_default_str();
  command
      .add_option("--latency", arguments->parallel.latency,
                  "Network latency in microseconds, for the simulation")
      ->check(within(between_reals(0, 1e6)))
      ->capture_default_str();
  command
      .add_option("--compute", arguments->parallel.compute,
                  "Seconds of forward and backward of a micro-batch, for the simulation; sums and "
                  "update are scaled by the same factor. Default: as measured here")
      ->check(within(between_reals(1e-6, 1e6)));
  command.add_flag("--scaling", arguments->parallel.scaling,
                   "Also print the simulated efficiency of 1 to 1,024 processes, each with "
                   "train.accumulate batches, with this network and common ones");
  command
      .add_option("--seconds", arguments->seconds,
                  "Time to measure steps, and again for each other number of threads")
      ->check(within(between_reals(0.01, 3600)))
      ->capture_default_str();
  add_json(command, arguments->json);
  command.footer(
      "Examples:\n  tapestry plan configs/copy.yaml train.batch_size=256\n"
      "  tapestry plan configs/copy.yaml train.accumulate=8 --processes 4\n"
      "  tapestry plan configs/copy.yaml --scaling --bandwidth 100 --latency 20");
  return [arguments] {
    const auto started = Clock::now();
    const PlanReport report = make_report(*arguments, started);
    if (arguments->json) {
      print_json(report);
    } else {
      print_text(report);
    }
    return static_cast<int>(ExitCode::done);
  };
}

}  // namespace
}  // namespace plan_cli

const Command plan_command{
    .name = "plan",
    .purpose = "Estimate time, memory and disk space of a run before it begins",
    .define = plan_cli::define,
    .memory_hint =
        "try a smaller train.batch_size with a larger train.accumulate, or "
        "a smaller model (model.d_model, model.num_encoder_layers, "
        "model.num_decoder_layers), or fewer data"};

}  // namespace tapestry
