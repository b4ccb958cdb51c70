#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "data/io/utf8.h"
#include "train/cli/command.h"
#include "train/cli/model_json.h"
#include "train/cli/new_run.h"
#include "train/config/error.h"
#include "train/error.h"
#include "train/format.h"
#include "train/initial_state.h"
#include "train/parallel/step_division.h"
#include "train/parallel/step_simulation.h"
#include "train/plan_limits.h"
#include "train/run_description.h"
#include "train/run_plan.h"
#include "train/tasks/task.h"
#include "train/training_run.h"

namespace tapestry {
namespace plan_cli {
namespace {

using Json = nlohmann::ordered_json;
using Clock = TimeLimit::Clock;

struct Arguments {
  std::string config;
  std::vector<std::string> overrides;  ///< section.key=value
  std::size_t processes = 1;           ///< of a parallel run
  double bandwidth = 10.0;             ///< between its processes, in Gbit/s
  double latency = 50.0;               ///< between its processes, in microseconds
  bool scaling = false;                ///< also simulate 1 to 1,024 processes
  std::optional<double> compute;       ///< seconds of a micro-batch in them; none: as measured
  double seconds = 3.0;                ///< PlanOptions::seconds
  bool json = false;
};

/// A simulated parallel run.
struct ParallelStep {
  std::size_t processes = 1;
  std::size_t micro_batches = 1;  ///< of a step
  SimulatedStep step;
  std::uint64_t memory = 0;  ///< of a process, without that of saving
};

/// A network to simulate.
struct NamedNetwork {
  std::string name;
  double bandwidth = 0.0;  ///< Gbit/s
  double latency = 0.0;    ///< microseconds
};

/// Simulated runs of 1, 2, 4, ..., 1,024 processes.
struct Scaling {
  NamedNetwork network;
  std::vector<ParallelStep> steps;
};

NamedNetwork network_of(const Arguments& arguments) {
  return {.name = "as given", .bandwidth = arguments.bandwidth, .latency = arguments.latency};
}

/// Networks to compare with. Bandwidths are those of the standards; latencies are assumed for TCP
/// with Ethernet and for native transfers with InfiniBand.
std::vector<NamedNetwork> common_networks() {
  return {{.name = "10 Gbit/s Ethernet", .bandwidth = 10, .latency = 50},
          {.name = "100 Gbit/s Ethernet", .bandwidth = 100, .latency = 20},
          {.name = "InfiniBand HDR", .bandwidth = 200, .latency = 2}};
}

/// A plan with what is printed beside it.
struct Report {
  std::vector<std::string> description;  ///< describe_run()
  std::string largest_step;              ///< Task::describe_size()
  std::string targets;                   ///< Task::target_noun()
  RunPlan plan;
  std::vector<Limit> limits;
  std::optional<StepDivision> division;  ///< with several processes
  std::optional<ParallelStep> parallel;  ///< of these processes
  std::vector<Scaling> scalings{};       ///< with each network, the one of the arguments first
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

/// Simulates steps of so many micro-batches, in any number of processes.
class StepSimulator {
 public:
  /// compute  seconds of forward and backward of a micro-batch; none: those measured
  StepSimulator(const NamedNetwork& network, std::optional<double> compute, const Trainer& trainer,
                const Corpus& corpus, const RunPlan& plan)
      : network_{.bandwidth = network.bandwidth * 1e9 / 8, .latency = network.latency * 1e-6},
        costs_(*plan.costs),
        trainer_(trainer),
        corpus_(corpus),
        plan_(plan) {
    const double measured = costs_.forward + costs_.backward;
    const double factor = compute.value_or(measured) / measured;
    for (double* time : {&costs_.forward, &costs_.backward, &costs_.add, &costs_.update}) {
      *time *= factor;
    }
    for (double& time : costs_.complete) time *= factor;
  }

  ParallelStep simulate(std::size_t processes, std::size_t micro_batches) const {
    Config config = trainer_.config();
    config.train.accumulate = micro_batches;
    MemoryNeed need = need_of_model(config, corpus_, processes);
    need.step = plan_.need.step;
    return {.processes = processes,
            .micro_batches = micro_batches,
            .step = simulate_step(trainer_.model().parameters, costs_, network_, processes,
                                  micro_batches, exchange_options(config.train)),
            .memory = need.total() - need.saving};
  }

 private:
  Interconnect network_;
  StepCosts costs_;
  const Trainer& trainer_;
  const Corpus& corpus_;
  const RunPlan& plan_;
};

/// What is printed about several processes.
void add_parallel_steps(const Arguments& arguments, const Trainer& trainer, const Corpus& corpus,
                        Report& report) {
  const std::size_t accumulate = trainer.config().train.accumulate;
  const Parameters& parameters = trainer.model().parameters;
  const auto simulator_of = [&](const NamedNetwork& network) {
    return StepSimulator(network, arguments.compute, trainer, corpus, report.plan);
  };
  if (arguments.processes > 1) {
    const bool halves = exchange_options(trainer.config().train).bfloat16;
    const std::uint64_t values = parameters.num_values();
    const std::uint64_t bytes = bytes_per_element(parameters.dtype());
    report.division =
        divide_step(arguments.processes, accumulate, values * bytes, values * (halves ? 2 : bytes));
    report.parallel = simulator_of(network_of(arguments)).simulate(arguments.processes, accumulate);
  }
  if (!arguments.scaling) return;
  std::vector<NamedNetwork> networks = common_networks();
  networks.insert(networks.begin(), network_of(arguments));
  for (const NamedNetwork& network : networks) {
    const StepSimulator simulator = simulator_of(network);
    Scaling& scaling = report.scalings.emplace_back(Scaling{.network = network, .steps = {}});
    for (std::size_t processes = 1; processes <= 1024; processes *= 2) {
      scaling.steps.push_back(simulator.simulate(processes, processes * accumulate));
    }
  }
}

Report make_report(const Arguments& arguments, Clock::time_point started) {
  Config config = load_new_config(arguments.config, arguments.overrides);
  const InitialState initial = load_initial_state(config);
  complete_new_config(arguments.config, initial.corpus, config);
  require_work_for_all(arguments.processes, config);
  require_memory_for_model(config, initial.corpus, read_available_memory());
  RunDirectory directory(config.train.run_dir);
  Progress silent(nullptr, 0, config.train.steps);
  Trainer trainer(config, initial.corpus, directory, silent);
  Report report;
  if (initial.model) report.description = trainer.initialize(*initial.model);
  const Task& task = find_task(config);
  try_network(config, trainer.model(),
              make_batch(initial.corpus.training(), std::array<std::size_t, 1>{0},
                         batch_rules(config, initial.corpus.target_vocabulary.size())));
  for (std::string& line :
       describe_run(trainer, initial.corpus, config.train.run_dir, arguments.processes)) {
    report.description.push_back(std::move(line));
  }
  report.largest_step = task.describe_size(largest_batches(initial.corpus, config).front());
  report.targets = task.target_noun(config);
  const bool simulates = arguments.processes > 1 || arguments.scaling;
  report.plan = plan_run(trainer, initial.corpus,
                         {.seconds = arguments.seconds, .started = started, .costs = simulates});
  report.limits = find_limits(report.plan, config);
  if (const auto taken = find_taken_directory(directory)) {
    report.limits.insert(report.limits.begin(), *taken);
  }
  if (simulates) add_parallel_steps(arguments, trainer, initial.corpus, report);
  return report;
}

// ---- Text.

/// "12.3 ms", "1.23 s"
std::string short_time(double seconds) {
  return seconds < 1.0 ? fmt::format("{:.3g} ms", 1e3 * seconds) : fmt::format("{:.3g} s", seconds);
}

std::string share(double part, const RunPlan& plan) {
  return fmt::format("{:.1f} %", 100 * part / plan.total());
}

void print_epoch(const Report& report) {
  const RunPlan& plan = report.plan;
  std::string text =
      fmt::format("epoch: {} steps of {} {}; ", format_count(plan.steps_per_epoch()),
                  format_count(plan.accumulate), plan.accumulate == 1 ? "batch" : "batches");
  if (plan.has_lengths) {
    text += fmt::format("{} tokens and {} of padding ({:.1f} %); ",
                        format_count(plan.epoch.positions - plan.epoch.padding),
                        format_count(plan.epoch.padding), 100 * plan.padding_share());
  }
  fmt::print("{}{:.2f} epochs in {} steps\n", text,
             static_cast<double>(plan.steps) * static_cast<double>(plan.accumulate) /
                 static_cast<double>(plan.epoch.batches),
             format_count(plan.steps));
}

void print_step(const Report& report) {
  const RunPlan& plan = report.plan;
  const StepDistribution& step = plan.step;
  fmt::print("step: {} (median of {} steps; 10th percentile {}, 90th {}), {} {}/s\n",
             short_time(step.median), step.steps, short_time(step.low), short_time(step.high),
             format_count(static_cast<std::uint64_t>(plan.targets / step.median)), report.targets);
  fmt::print("  waiting for batches {}, forward and backward {}, update {}\n",
             short_time(plan.preparation), short_time(plan.gradients), short_time(plan.update));
}

void print_threads(const RunPlan& plan) {
  if (plan.thread_times.empty()) {
    fmt::print("threads: {}; others were not measured, since a step takes long (--seconds)\n",
               plan.threads);
    return;
  }
  const auto best = std::ranges::min_element(plan.thread_times, {}, &ThreadTime::seconds);
  std::string text;
  for (const ThreadTime& time : plan.thread_times) {
    text += fmt::format("{}{}: {}{}", text.empty() ? "" : ", ", time.threads,
                        short_time(time.seconds), time.threads == plan.threads ? " (set)" : "");
  }
  fmt::print("threads: time of a step with {}; fastest: {}\n", text, best->threads);
}

void print_larger_batch(const RunPlan& plan) {
  if (!plan.larger_batch) return;
  const BatchTrial& trial = *plan.larger_batch;
  const bool tokens = trial.batch_tokens != 0;
  fmt::print("batches of twice the size ({}={}, train.accumulate={}): {:.2f} times the speed\n",
             tokens ? "train.batch_tokens" : "train.batch_size",
             tokens ? trial.batch_tokens : trial.batch_size, trial.accumulate, trial.speedup);
}

void print_validation(const RunPlan& plan) {
  if (plan.validations == 0) {
    fmt::print("validation: none, there is no validation set\n");
    return;
  }
  const std::string decoding =
      plan.decoded == 0 ? ""
                        : fmt::format(" and decoding of {} sequences {}",
                                      format_count(plan.decoded), short_time(plan.decoding));
  fmt::print("validation: {} times, scores {}{}{}\n", format_count(plan.validations),
             short_time(plan.scoring), decoding,
             plan.whole_validation ? "" : " (from a part of the set)");
}

void print_saving(const RunPlan& plan) {
  const std::string times =
      plan.saves.fewest == plan.saves.most
          ? format_count(plan.saves.most)
          : fmt::format("{} to {}", format_count(plan.saves.fewest), format_count(plan.saves.most));
  fmt::print(
      "saving: {} times, {} without the time of the disk; a checkpoint of {}, up to {} of "
      "them {}; {}\n",
      times, short_time(plan.saving), format_bytes(plan.checkpoint_bytes), plan.checkpoints,
      format_bytes(plan.checkpoints * plan.checkpoint_bytes),
      plan.free_disk ? fmt::format("{} of the disk free", format_bytes(*plan.free_disk))
                     : "free disk unknown");
}

void print_reports(const RunPlan& plan) {
  if (plan.reports == 0) return;
  fmt::print("report: {} {}, {} without the curves and the time of the disk\n",
             format_count(plan.reports), plan.reports == 1 ? "time" : "times",
             short_time(plan.reporting));
}

std::string network_text(const Arguments& arguments) {
  std::string text =
      fmt::format("{:.4g} Gbit/s and {:.4g} us", arguments.bandwidth, arguments.latency);
  if (arguments.compute) {
    text += fmt::format(", micro-batches of {}", short_time(*arguments.compute));
  }
  return text;
}

void print_division(const Report& report, const Arguments& arguments) {
  if (!report.division) return;
  const StepDivision& division = *report.division;
  const SimulatedStep& step = report.parallel->step;
  const auto [fewest, most] = std::ranges::minmax(division.micro_batches);
  fmt::print("processes: {} of {} micro-batches each{}\n", division.micro_batches.size(),
             fewest == most ? fmt::to_string(most) : fmt::format("{} to {}", fewest, most),
             division.idle_share > 0.0
                 ? fmt::format("; processes wait {:.1f} % of the time of gradients",
                               100 * division.idle_share)
                 : "");
  fmt::print("  a process sends up to {} in a step ({} is the least), all together {}\n",
             format_bytes(division.most_sent), format_bytes(division.least_sent),
             format_bytes(division.all_sent));
  fmt::print(
      "  simulated for {}: a step takes {}, {:.2f} times the speed of one process (efficiency "
      "{:.1f} %)\n",
      network_text(arguments), short_time(step.seconds), step.one_process / step.seconds,
      100 * step.efficiency);
  fmt::print("  computing takes {}, exchange {}, {} of it overlapped with backward\n",
             short_time(step.compute), short_time(step.exchange), short_time(step.overlap));
  fmt::print("  memory of a process: {} beside the data, and {} more in rank 0 while it saves\n",
             format_bytes(report.parallel->memory), format_bytes(report.plan.need.saving));
}

/// The step and the bytes of the first network, and the efficiency of all.
void print_scaling(const Report& report, const Arguments& arguments) {
  if (report.scalings.empty()) return;
  const Scaling& given = report.scalings.front();
  fmt::print("scaling: simulated for {} {} in each process, and {}; efficiency of other networks\n",
             report.plan.accumulate, report.plan.accumulate == 1 ? "micro-batch" : "micro-batches",
             network_text(arguments));
  fmt::print("  {:>9}  {:>9}  {:>9}  {:>9}", "processes", "step", "sent", "memory");
  for (const Scaling& scaling : report.scalings) fmt::print("  {:>19}", scaling.network.name);
  fmt::print("\n");
  for (std::size_t i = 0; i < given.steps.size(); ++i) {
    const ParallelStep& row = given.steps[i];
    fmt::print("  {:>9}  {:>9}  {:>9}  {:>9}", row.processes, short_time(row.step.seconds),
               format_bytes(row.step.sent), format_bytes(row.memory));
    for (const Scaling& scaling : report.scalings) {
      fmt::print("  {:>17.1f} %", 100 * scaling.steps[i].step.efficiency);
    }
    fmt::print("\n");
  }
}

void print_total(const RunPlan& plan) {
  const std::string reports =
      plan.reports == 0 ? "" : fmt::format(", reports {}", share(plan.all_reports(), plan));
  fmt::print("time: {} ({}): steps {}, validation {}, saving {}{}, start {}\n",
             duration_in_words(plan.total()), format_duration(plan.total()),
             share(plan.all_steps(), plan), share(plan.all_validations(), plan),
             share(plan.all_saves(), plan), reports, share(plan.start, plan));
}

void print_text(const Report& report, const Arguments& arguments) {
  for (const std::string& line : report.description) fmt::print("{}\n", escaped(line));
  const RunPlan& plan = report.plan;
  fmt::print("{}\n", to_line(plan.need, report.largest_step, plan.available));
  fmt::print("peak memory: {}, measured, with the data\n", format_bytes(plan.peak_memory));
  print_epoch(report);
  print_step(report);
  print_threads(plan);
  print_larger_batch(plan);
  print_validation(plan);
  print_saving(plan);
  print_reports(plan);
  print_division(report, arguments);
  print_scaling(report, arguments);
  print_total(plan);
  if (report.limits.empty()) {
    fmt::print("limits: none found; the time is that of the computation\n");
    return;
  }
  fmt::print("limits:\n");
  for (const Limit& limit : report.limits) {
    fmt::print("  {}\n", escaped_lines(limit.what));
    if (!limit.change.empty()) fmt::print("    {}\n", escaped_lines(limit.change));
  }
}

// ---- JSON.

Json epoch_json(const RunPlan& plan) {
  Json json = {{"steps", plan.steps_per_epoch()},
               {"batches", plan.epoch.batches},
               {"examples", plan.epoch.examples}};
  if (plan.has_lengths) {
    json["tokens"] = plan.epoch.positions - plan.epoch.padding;
    json["padding"] = plan.epoch.padding;
    json["padding_share"] = plan.padding_share();
  }
  return json;
}

Json memory_json(const RunPlan& plan) {
  const auto limited = [](std::uint64_t bytes) {
    return bytes == AvailableMemory::no_limit ? Json(nullptr) : Json(bytes);
  };
  return {{"peak_bytes", plan.peak_memory},
          {"needed_beside_data_bytes", plan.need.total()},
          {"model_and_optimizer_bytes", plan.need.state},
          {"largest_step_bytes", plan.need.step},
          {"validation_bytes", plan.need.validation},
          {"saving_bytes", plan.need.saving},
          {"free_bytes", limited(plan.available.free)}};
}

Json step_json(const RunPlan& plan) {
  return {{"seconds", plan.step.median},
          {"seconds_10th_percentile", plan.step.low},
          {"seconds_90th_percentile", plan.step.high},
          {"measured_steps", plan.step.steps},
          {"batch_seconds", plan.preparation},
          {"gradient_seconds", plan.gradients},
          {"update_seconds", plan.update},
          {"targets", plan.targets}};
}

Json threads_json(const RunPlan& plan) {
  Json times = Json::array();
  for (const ThreadTime& time : plan.thread_times) {
    times.push_back({{"threads", time.threads}, {"step_seconds", time.seconds}});
  }
  return {{"set", plan.threads},
          {"cores", plan.cores},
          {"busy_cores", plan.busy_cores},
          {"measured", std::move(times)}};
}

Json larger_batch_json(const RunPlan& plan) {
  if (!plan.larger_batch) return nullptr;
  const BatchTrial& trial = *plan.larger_batch;
  Json json;
  if (trial.batch_tokens != 0) {
    json["batch_tokens"] = trial.batch_tokens;
  } else {
    json["batch_size"] = trial.batch_size;
  }
  json["accumulate"] = trial.accumulate;
  json["speedup"] = trial.speedup;
  json["same_step"] = trial.same_step;
  return json;
}

Json simulation_json(const ParallelStep& parallel) {
  const SimulatedStep& step = parallel.step;
  return {{"processes", parallel.processes},
          {"step_micro_batches", parallel.micro_batches},
          {"step_seconds", step.seconds},
          {"compute_seconds", step.compute},
          {"exchange_seconds", step.exchange},
          {"overlap_seconds", step.overlap},
          {"speedup", step.one_process / step.seconds},
          {"efficiency", step.efficiency},
          {"sent_bytes", step.sent},
          {"memory_bytes", parallel.memory}};
}

Json division_json(const Report& report) {
  if (!report.division) return nullptr;
  Json json = {{"micro_batches", report.division->micro_batches},
               {"most_sent_bytes", report.division->most_sent},
               {"least_sent_bytes", report.division->least_sent},
               {"all_sent_bytes", report.division->all_sent},
               {"idle_share", report.division->idle_share}};
  json.update(simulation_json(*report.parallel));
  return json;
}

Json scaling_json(const Report& report) {
  Json networks = Json::array();
  for (const auto& [network, steps] : report.scalings) {
    Json rows = Json::array();
    for (const ParallelStep& row : steps) rows.push_back(simulation_json(row));
    networks.push_back({{"network", network.name},
                        {"gbit_per_second", network.bandwidth},
                        {"latency_microseconds", network.latency},
                        {"steps", std::move(rows)}});
  }
  return networks;
}

void print_json(const Report& report) {
  const RunPlan& plan = report.plan;
  Json limits = Json::array();
  for (const Limit& limit : report.limits) {
    limits.push_back({{"what", limit.what}, {"change", limit.change}});
  }
  const Json json = {
      {"run_dir", plan.run_dir},
      {"steps", plan.steps},
      {"model", to_json(plan.model)},
      {"epoch", epoch_json(plan)},
      {"memory", memory_json(plan)},
      {"step", step_json(plan)},
      {"threads", threads_json(plan)},
      {"larger_batch", larger_batch_json(plan)},
      {"validation",
       {{"times", plan.validations},
        {"scoring_seconds", plan.scoring},
        {"decoding_seconds", plan.decoding},
        {"decoded", plan.decoded},
        {"whole_set", plan.whole_validation}}},
      {"saving",
       {{"fewest_times", plan.saves.fewest},
        {"most_times", plan.saves.most},
        {"seconds", plan.saving},
        {"checkpoint_bytes", plan.checkpoint_bytes},
        {"checkpoints", plan.checkpoints},
        {"free_disk_bytes", plan.free_disk ? Json(*plan.free_disk) : Json(nullptr)}}},
      {"report", {{"times", plan.reports}, {"seconds", plan.reporting}}},
      {"processes", division_json(report)},
      {"scaling", scaling_json(report)},
      {"time",
       {{"seconds", plan.total()},
        {"start_seconds", plan.start},
        {"step_seconds", plan.all_steps()},
        {"validation_seconds", plan.all_validations()},
        {"saving_seconds", plan.all_saves()},
        {"report_seconds", plan.all_reports()}}},
      {"limits", std::move(limits)},
      {"description", report.description}};
  fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
}

Action define(ArgumentParser& parser) {
  const auto arguments = std::make_shared<Arguments>();
  parser.add_option("CONFIG", arguments->config, "Config file (YAML)")
      .required()
      .check(not_empty());
  parser.add_option("OVERRIDES", arguments->overrides,
                    "Config keys with other values, such as model.d_model=128");
  parser
      .add_option("--processes", arguments->processes,
                  "Also print how this number of processes would divide a step, and its "
                  "simulated time")
      .check(within(between(1, 1'000'000)))
      .show_default();
  parser
      .add_option("--bandwidth", arguments->bandwidth,
                  "Network bandwidth of each process in Gbit/s, for the simulation")
      .check(within(between_reals(0.001, 1e6)))
      .show_default();
  parser
      .add_option("--latency", arguments->latency,
                  "Network latency in microseconds, for the simulation")
      .check(within(between_reals(0, 1e6)))
      .show_default();
  parser
      .add_option("--compute", arguments->compute,
                  "Seconds of forward and backward of a micro-batch, for the simulation; sums and "
                  "update are scaled by the same factor. Default: as measured here")
      .check(within(between_reals(1e-6, 1e6)));
  parser.add_flag("--scaling", arguments->scaling,
                  "Also print the simulated efficiency of 1 to 1,024 processes, each with "
                  "train.accumulate batches, with this network and common ones");
  parser
      .add_option("--seconds", arguments->seconds,
                  "Time to measure steps, and again for each other number of threads")
      .check(within(between_reals(0.01, 3600)))
      .show_default();
  add_json(parser, arguments->json);
  parser.set_footer(
      "Examples:\n  tapestry plan configs/copy.yaml train.batch_size=256\n"
      "  tapestry plan configs/copy.yaml train.accumulate=8 --processes 4\n"
      "  tapestry plan configs/copy.yaml --scaling --bandwidth 100 --latency 20");
  return [arguments] {
    const auto started = Clock::now();
    const Report report = make_report(*arguments, started);
    if (arguments->json) {
      print_json(report);
    } else {
      print_text(report, *arguments);
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
