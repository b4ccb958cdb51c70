#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "layers/parameters.h"
#include "train/parallel/gradient_exchange.h"
#include "train/parallel/process_group.h"

/// What a step of a parallel run would take, from measurements of one process.
namespace tapestry {

/// Measured parts of a step in one process, in seconds.
struct StepCosts {
  double forward = 0.0;   ///< of a micro-batch
  double backward = 0.0;  ///< of a micro-batch
  /// Of each parameter, from the start of backward until its gradient is complete.
  std::vector<double> complete{};
  double add = 0.0;     ///< adding the gradients of all parameters to others
  double update = 0.0;  ///< norm, clipping and optimizer, of all parameters
};

/// The network between processes. All of them send and receive at full bandwidth at the same time.
struct Interconnect {
  double bandwidth = 0.0;  ///< of each process, in each direction, in bytes per second
  double latency = 0.0;    ///< seconds from the begin of sending to the begin of receiving
};

/// A step of a parallel run as it is simulated; times in seconds.
struct SimulatedStep {
  double seconds = 0.0;    ///< of the whole step, from the end of an update to that of the next one
  double compute = 0.0;    ///< forward, backward, sums and update of the process with most of them
  double exchange = 0.0;   ///< of gradients and parameters, without overlap
  double overlap = 0.0;    ///< of the exchange, while processes compute
  std::uint64_t sent = 0;  ///< bytes that a process sends
  double one_process = 0.0;  ///< the same micro-batches in one process
  /// one_process / (processes x seconds): 1 without exchange, waiting and work done twice.
  double efficiency = 0.0;
};

/// Simulates a step that follows others.
///
/// It begins when the processes begin to send the parameters that the step before has updated, the
/// bucket of the first parameters first (ParameterExchange). Forward of the first micro-batch waits
/// for a bucket where it first reads one of its parameters. Where that is, is not measured: it is
/// assumed that forward reads parameters in the reverse order in which backward completes their
/// gradients, after the same share of its time. A parameter whose gradient is complete after the
/// share s of backward is read after the share 1 - s of forward.
///
/// The process with the most sums of gradients computes its micro-batches, and sends each bucket to
/// all others when it is complete and the buckets before it are sent (GradientExchange). A bucket
/// takes its bytes / bandwidth, and message_seconds for each message. The part of a process can be
/// summed `latency` after the last process has sent it. The update takes update / processes.
/// Each of the `calls_of_step` messages between all processes passes through 2 log2(processes)
/// processes, one after the other; meanwhile nothing else proceeds.
///
/// Not simulated: what the network costs the processor, other traffic, and processes of different
/// speed.
///
/// micro_batches  of a step, at least one for each process
SimulatedStep simulate_step(const Parameters& parameters, const StepCosts& costs,
                            const Interconnect& network, std::size_t processes,
                            std::size_t micro_batches, const ExchangeOptions& options);

/// Assumed time that a message takes its sender beside the transfer of its bytes.
inline constexpr double message_seconds = 1e-6;
/// How often all processes exchange short messages in a step: for reasons to stop, batches, loss,
/// gradients that are present, norm, and requests to save. Batch norm adds one, which is not
/// simulated.
inline constexpr std::size_t calls_of_step = 6;

}  // namespace tapestry
