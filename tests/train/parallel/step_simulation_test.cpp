#include "train/parallel/step_simulation.h"

#include <doctest/doctest.h>

#include <cstddef>

#include "autograd/kernels/parallel.h"

namespace tapestry {
namespace {

using doctest::Approx;

constexpr std::size_t bucket_values = 2 * kernels::elements_per_piece;
constexpr double bucket_bytes = bucket_values * sizeof(float);
constexpr ExchangeOptions small_buckets{.bucket_bytes = 1};
constexpr Interconnect fast{.bandwidth = 1e15, .latency = 0.0};

/// Two parameters, which are two buckets of two processes.
Parameters two_parameters() {
  Parameters parameters(DType::float32, 1);
  parameters.create("a", {bucket_values}, zeros_initializer());
  parameters.create("b", {bucket_values}, zeros_initializer());
  return parameters;
}

/// Backward completes the gradient of the second parameter after a second, that of the first one at
/// its end: forward reads the first one at its begin, the second one after half a second.
const StepCosts costs{
    .forward = 1.0, .backward = 2.0, .complete = {2.0, 1.0}, .add = 0.0, .update = 0.4};

/// A network in which a process sends a bucket to another one in `seconds`.
Interconnect slow(double seconds) {
  return {.bandwidth = bucket_bytes / 2 / seconds, .latency = 0.0};
}

TEST_CASE("a step of one process has no exchange") {
  StepCosts with_sums = costs;
  with_sums.add = 0.1;
  const SimulatedStep step =
      simulate_step(two_parameters(), with_sums, slow(1.0), 1, 4, small_buckets);
  CHECK(step.seconds == Approx(4 * 3.0 + 3 * 0.1 + 0.4));
  CHECK(step.one_process == step.seconds);
  CHECK(step.efficiency == 1.0);
  CHECK(step.exchange == 0.0);
  CHECK(step.sent == 0);
}

TEST_CASE("with a network without cost, processes divide sums and updates evenly") {
  StepCosts with_sums = costs;
  with_sums.add = 0.1;
  const Parameters parameters = two_parameters();
  const SimulatedStep two = simulate_step(parameters, with_sums, fast, 2, 2, small_buckets);
  CHECK(two.seconds == Approx(3.0 + 0.05 + 0.2).epsilon(1e-3));
  CHECK(two.efficiency == Approx(1.0).epsilon(1e-3));
  // Of eight micro-batches each process adds its own four, and half of the sum of the other.
  const SimulatedStep eight = simulate_step(parameters, with_sums, fast, 2, 8, small_buckets);
  CHECK(eight.seconds == Approx(4 * 3.0 + 3 * 0.1 + 0.05 + 0.2).epsilon(1e-3));
  CHECK(eight.compute == Approx(eight.seconds).epsilon(1e-3));
}

TEST_CASE("buckets are sent during backward, the last one after it, parameters during forward") {
  const Parameters parameters = two_parameters();
  // Parameters arrive after 1 and 2 s, and would be read after 0 and 0.5 s: forward waits 1.5 s.
  // From its begin without waiting, buckets are complete after 2 and 3 s, and the second one is
  // sent from 3 to 4 s.
  const SimulatedStep step = simulate_step(parameters, costs, slow(1.0), 2, 2, small_buckets);
  CHECK(step.seconds == Approx(1.5 + 4.0 + 0.2).epsilon(1e-3));
  CHECK(step.exchange == Approx(4.0).epsilon(1e-3));
  CHECK(step.overlap == Approx(1.0 + 0.5).epsilon(1e-3));
  CHECK(step.efficiency == Approx(6.4 / (2 * 5.7)).epsilon(1e-3));
  CHECK(step.sent == static_cast<std::uint64_t>(2 * bucket_bytes));
  // In one bucket nothing is complete before the end of backward, nor there before all parameters.
  const SimulatedStep one = simulate_step(parameters, costs, slow(1.0), 2, 2, {});
  CHECK(one.seconds == Approx(3.0 + 2.0 + 0.2 + 2.0).epsilon(1e-3));
  CHECK(one.overlap == Approx(0.0).epsilon(1e-3));
  // A network that is slower than backward: the second bucket waits for the first one.
  const SimulatedStep slower = simulate_step(parameters, costs, slow(2.0), 2, 2, small_buckets);
  CHECK(slower.seconds == Approx(3.5 + 2.0 + 4.0 + 0.2).epsilon(1e-3));
}

TEST_CASE("forward waits for the parameters that arrive latest after it would read them") {
  const Parameters parameters = two_parameters();
  // The second bucket arrives after 0.4 s, before it is read.
  const SimulatedStep first = simulate_step(parameters, costs, slow(0.2), 2, 2, small_buckets);
  CHECK(first.seconds == Approx(0.2 + 3.0 + 0.2 + 0.2).epsilon(1e-3));
  CHECK(first.exchange == Approx(0.8).epsilon(1e-3));
  CHECK(first.overlap == Approx(0.2 + 0.2).epsilon(1e-3));
  // Only the first one of several micro-batches waits.
  const SimulatedStep four = simulate_step(parameters, costs, slow(0.2), 2, 4, small_buckets);
  CHECK(four.seconds - first.seconds == Approx(3.0).epsilon(1e-3));
  // Latency counts for each bucket, and bfloat16 is not that of parameters.
  const Interconnect far{.bandwidth = bucket_bytes / 2 / 0.2, .latency = 0.3};
  const SimulatedStep late =
      simulate_step(parameters, costs, far, 2, 2, {.bucket_bytes = 1, .bfloat16 = true});
  const double calls = calls_of_step * 2 * 0.3;
  CHECK(late.seconds == Approx(0.5 + 3.0 + 0.1 + 0.3 + 0.2 + calls).epsilon(1e-3));
}

TEST_CASE("sums that are complete before the last micro-batch are sent earlier") {
  // Process 1 has micro-batch 1 and micro-batch 2, which are not siblings: two sums of two buckets.
  const SimulatedStep step = simulate_step(two_parameters(), costs, slow(0.5), 2, 3, small_buckets);
  // Forward waits 0.5 s for the first parameters, and reads the second ones when they arrive.
  CHECK(step.seconds == Approx(0.5 + 6.0 + 0.5 + 0.2).epsilon(1e-3));
  CHECK(step.sent == static_cast<std::uint64_t>(3 * bucket_bytes));
}

TEST_CASE("a message to all processes takes 2 log2(p) messages in sequence") {
  const Interconnect far{.bandwidth = 1e15, .latency = 0.01};
  const SimulatedStep step = simulate_step(two_parameters(), costs, far, 8, 8, {});
  const double exchange = 2 * 0.01;  // of gradients and of parameters
  CHECK(step.seconds == Approx(3.0 + 0.05 + exchange + calls_of_step * 6 * 0.01).epsilon(1e-3));
}

TEST_CASE("gradients in bfloat16 take half the time to send, parameters do not") {
  const SimulatedStep step = simulate_step(two_parameters(), costs, slow(1.0), 2, 2,
                                           {.bucket_bytes = 1, .bfloat16 = true});
  CHECK(step.seconds == Approx(1.5 + 3.5 + 0.2).epsilon(1e-3));
  CHECK(step.sent == static_cast<std::uint64_t>(1.5 * bucket_bytes));
}

}  // namespace
}  // namespace tapestry
