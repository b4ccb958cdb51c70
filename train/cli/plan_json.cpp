#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "train/cli/model_json.h"
#include "train/cli/plan_report.h"

namespace tapestry::plan_cli {
namespace {

using Json = nlohmann::ordered_json;

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
          {"average_bytes", plan.need.average},
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

Json division_json(const PlanReport& report) {
  if (!report.parallel.division) return nullptr;
  Json json = {{"micro_batches", report.parallel.division->micro_batches},
               {"most_sent_bytes", report.parallel.division->most_sent},
               {"least_sent_bytes", report.parallel.division->least_sent},
               {"all_sent_bytes", report.parallel.division->all_sent},
               {"idle_share", report.parallel.division->idle_share}};
  json.update(simulation_json(*report.parallel.step));
  return json;
}

Json scaling_json(const PlanReport& report) {
  Json networks = Json::array();
  for (const auto& [network, steps] : report.parallel.scalings) {
    Json rows = Json::array();
    for (const ParallelStep& row : steps) rows.push_back(simulation_json(row));
    networks.push_back({{"network", network.name},
                        {"gbit_per_second", network.bandwidth},
                        {"latency_microseconds", network.latency},
                        {"steps", std::move(rows)}});
  }
  return networks;
}

}  // namespace

void print_json(const PlanReport& report) {
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

}  // namespace tapestry::plan_cli
