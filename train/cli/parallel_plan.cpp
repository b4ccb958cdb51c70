#include "train/cli/parallel_plan.h"

#include "train/config/config.h"
#include "train/memory_need.h"
#include "train/step.h"

namespace tapestry::plan_cli {
namespace {

/// Networks to compare with. Bandwidths are those of the standards; latencies are assumed for TCP
/// with Ethernet and for native transfers with InfiniBand.
std::vector<NamedNetwork> common_networks() {
  return {{.name = "10 Gbit/s Ethernet", .bandwidth = 10, .latency = 50},
          {.name = "100 Gbit/s Ethernet", .bandwidth = 100, .latency = 20},
          {.name = "InfiniBand HDR", .bandwidth = 200, .latency = 2}};
}

/// Simulates steps of so many micro-batches, in any number of processes.
class StepSimulator {
 public:
  /// compute  seconds of forward and backward of a micro-batch; none: those measured
  StepSimulator(const NamedNetwork& network, std::optional<double> compute,
                const StepComputer& computer, const RunPlan& plan)
      : network_{.bandwidth = network.bandwidth * 1e9 / 8, .latency = network.latency * 1e-6},
        costs_(*plan.costs),
        computer_(computer),
        plan_(plan) {
    const double measured = costs_.forward + costs_.backward;
    const double factor = compute.value_or(measured) / measured;
    for (double* time : {&costs_.forward, &costs_.backward, &costs_.add, &costs_.update}) {
      *time *= factor;
    }
    for (double& time : costs_.complete) time *= factor;
  }

  ParallelStep simulate(std::size_t processes, std::size_t micro_batches) const {
    Config config = computer_.config();
    config.train.accumulate = micro_batches;
    MemoryNeed need = need_of_model(config, computer_.corpus(), processes);
    need.step = plan_.need.step;
    return {.processes = processes,
            .micro_batches = micro_batches,
            .step = simulate_step(computer_.model().parameters, costs_, network_, processes,
                                  micro_batches, exchange_options(config.train)),
            .memory = need.of_process()};
  }

 private:
  Interconnect network_;
  StepCosts costs_;
  const StepComputer& computer_;
  const RunPlan& plan_;
};

}  // namespace

ParallelPlan plan_processes(const ParallelOptions& options, const StepComputer& computer,
                            const RunPlan& plan) {
  ParallelPlan result{.options = options, .division = {}, .step = {}};
  if (!options.simulates()) return result;
  const std::size_t accumulate = computer.config().train.accumulate;
  const Parameters& parameters = computer.model().parameters;
  const NamedNetwork given{
      .name = "as given", .bandwidth = options.bandwidth, .latency = options.latency};
  const auto make_simulator = [&](const NamedNetwork& network) {
    return StepSimulator(network, options.compute, computer, plan);
  };
  if (options.processes > 1) {
    const bool halves = exchange_options(computer.config().train).bfloat16;
    const std::uint64_t values = parameters.num_values();
    const std::uint64_t bytes = bytes_per_element(parameters.dtype());
    result.division =
        divide_step(options.processes, accumulate, values * bytes, values * (halves ? 2 : bytes));
    result.step = make_simulator(given).simulate(options.processes, accumulate);
  }
  if (!options.scaling) return result;
  std::vector<NamedNetwork> networks = common_networks();
  networks.insert(networks.begin(), given);
  for (const NamedNetwork& network : networks) {
    const StepSimulator simulator = make_simulator(network);
    Scaling& scaling = result.scalings.emplace_back(Scaling{.network = network, .steps = {}});
    for (std::size_t processes = 1; processes <= 1024; processes *= 2) {
      scaling.steps.push_back(simulator.simulate(processes, processes * accumulate));
    }
  }
  return result;
}

}  // namespace tapestry::plan_cli
