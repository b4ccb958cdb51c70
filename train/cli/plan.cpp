#include <fmt/format.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "train/base/error.h"
#include "train/cli/command.h"
#include "train/config/error.h"
#include "train/loop/new_run.h"
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
  try {
    const RunDirectory directory(config.train.run_dir);
    require_no_files(directory);
    require_no_run(directory);
  } catch (const UserError& error) {
    const std::string text = error.what();
    plan.limits.insert(
        plan.limits.begin(),
        {.what = "train rejects the run directory: " + text.substr(0, text.find('\n')),
         .change = "choose another train.run_dir, or resume the run with --resume"});
  }
  return plan;
}

Action define(CLI::App& command) {
  const auto arguments = std::make_shared<Arguments>();
  add_path(command, "CONFIG", arguments->config, "Config file (YAML)")->required();
  command.add_option("OVERRIDES", arguments->overrides,
                     "Config keys with other values, such as model.d_model=128");
  add_value(command, "--processes", arguments->options.processes, between(1, 1'000'000),
            "Also print how this number of processes would divide a step, and its time");
  add_value(command, "--seconds", arguments->options.seconds, between_reals(0.01, 3600),
            "Time to measure steps, and again for each number of threads");
  add_json(command, arguments->json);
  command.footer(
      "Examples:\n  tapestry plan configs/copy.yaml train.batch_size=256\n"
      "  tapestry plan configs/copy.yaml train.accumulate=8 --processes 4");
  return [arguments] {
    arguments->options.started = TimeLimit::Clock::now();
    const RunPlan plan = make_plan(*arguments);
    fmt::print("{}", arguments->json ? plan_json(plan) + "\n" : plan_text(plan));
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
