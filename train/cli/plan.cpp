// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "train/base/error.h"
#include "train/cli/command.h"
#include "train/config/error.h"
#include "train/loop/loaded_run.h"
#include "train/loop/new_config.h"
#include "train/loop/training_run.h"
#include "train/models/trained_model.h"
#include "train/plan/run_plan.h"
#include "train/tasks/task.h"
#include "train/tasks/task_data.h"

namespace tapestry {
namespace plan_cli {
namespace {

struct Arguments {
  std::string config;
  std::vector<std::string> overrides;  ///< section.key=value
  PlanOptions options;
  bool json = false;
};

/// The reason why `train` would reject the run directory; nullopt if `train` would accept it.
std::optional<Limit> find_directory_limit(const RunDirectory& directory) try {
  require_no_files(directory);
  require_no_run(directory);
  return std::nullopt;
} catch (const ConfigError& error) {
  const Diagnostic& found = error.diagnostics().front();
  return Limit{.what = fmt::format("train rejects the run directory: {}: {}", found.place.file,
                                   found.message),
               .change = "choose another train.run_dir, or resume the run with --resume"};
}

/// Runs the checks of `train`, and plans the run that `train` would start. If `train` would reject
/// the run directory, the error is the first limit of the plan.
RunPlan make_plan(const Arguments& arguments) {
  Config config = load_new_config(arguments.config, arguments.overrides);
  const InitialState initial = load_initial_state(config);
  complete_new_config(arguments.config, initial.corpus, config);
  require_work_for_all(arguments.options.processes, config);
  require_memory_for_model(config, initial.corpus, read_available_memory());
  StepComputer computer(config, initial.corpus);
  std::vector<std::string> initialized;
  if (initial.model) initialized = computer.initialize(*initial.model);
  try_network(config, computer.model(),
              make_batch(initial.corpus.training(), std::array<std::size_t, 1>{0},
                         batch_rules(config, initial.corpus.target_vocabulary.size())));
  RunPlan plan = plan_run(computer, arguments.options);
  plan.description.insert(plan.description.begin(), initialized.begin(), initialized.end());
  const auto limit = find_directory_limit(RunDirectory(config.train.run_dir));
  if (limit) plan.limits.insert(plan.limits.begin(), *limit);
  return plan;
}

void run(Arguments arguments) {
  arguments.options.started = TimeLimit::Clock::now();
  const RunPlan plan = make_plan(arguments);
  fmt::print("{}", arguments.json ? plan_json(plan) + "\n" : plan_text(plan));
}

void define(CLI::App& command, Arguments& arguments) {
  add_path(command, "CONFIG", arguments.config, "Config file (YAML)")->required();
  command.add_option("OVERRIDES", arguments.overrides,
                     "Config overrides, such as model.d_model=128");
  add_value(command, "--processes", arguments.options.processes, between(1, 1'000'000),
            "Also estimate step time and memory with this number of processes");
  add_value(command, "--seconds", arguments.options.seconds, between_reals(0.01, 3600),
            "Approximate number of seconds to measure steps with each number of threads");
  add_json(command, arguments.json);
  command.footer(
      "Examples:\n  tapestry plan configs/copy.yaml train.batch_size=256\n"
      "  tapestry plan configs/copy.yaml train.accumulate=8 --processes 4");
}

}  // namespace
}  // namespace plan_cli

extern const Command plan_command{
    .name = "plan",
    .purpose = "Estimate time, memory and disk space of a run before it begins",
    .define = with_arguments(plan_cli::define, plan_cli::run),
    .memory_hint = smaller_run_hint};

}  // namespace tapestry
