#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "train/parallel/step_division.h"
#include "train/parallel/step_simulation.h"
#include "train/plan/run_plan.h"
#include "train/step_computer.h"

/// What a run of several processes would take, simulated from the measurements of a plan.
namespace tapestry::plan_cli {

/// The processes and the network to simulate.
struct ParallelOptions {
  std::size_t processes = 1;      ///< of a parallel run
  double bandwidth = 10.0;        ///< between its processes, in Gbit/s
  double latency = 50.0;          ///< between its processes, in microseconds
  bool scaling = false;           ///< also simulate 1 to 1,024 processes
  std::optional<double> compute;  ///< seconds of a micro-batch in them; none: as measured

  /// Whether there is something to simulate.
  bool simulates() const { return processes > 1 || scaling; }
};

/// A simulated parallel run.
struct ParallelStep {
  std::size_t processes = 1;
  std::size_t micro_batches = 1;  ///< of a step
  SimulatedStep step;
  std::uint64_t memory = 0;  ///< MemoryNeed::of_process()
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

/// The simulated runs.
struct ParallelPlan {
  ParallelOptions options;
  std::optional<StepDivision> division;  ///< with several processes
  std::optional<ParallelStep> step;      ///< of these processes
  std::vector<Scaling> scalings{};  ///< with each network, that of the options first; if asked for
};

/// plan  of the run in one process, with RunPlan::costs if options.simulates()
ParallelPlan plan_processes(const ParallelOptions& options, const StepComputer& computer,
                            const RunPlan& plan);

}  // namespace tapestry::plan_cli
