#include "train/parallel/step_simulation.h"

#include <algorithm>
#include <bit>

#include "autograd/kernels/parallel.h"
#include "train/parallel/shard_layout.h"
#include "train/parallel/sum_tree.h"

namespace tapestry {
namespace {

/// The micro-batches of the process with the most work: of those with the most micro-batches, the
/// one with the most sums.
MicroBatches busiest(std::size_t processes, std::size_t micro_batches) {
  MicroBatches most;
  for (std::size_t rank = 0; rank < processes; ++rank) {
    const MicroBatches own = micro_batch_range(rank, processes, micro_batches);
    if (own.size() > most.size() ||
        (own.size() == most.size() && nodes_in(own).size() > nodes_in(most).size())) {
      most = own;
    }
  }
  return most;
}

std::size_t count_nodes(std::size_t processes, std::size_t micro_batches) {
  std::size_t nodes = 0;
  for (std::size_t rank = 0; rank < processes; ++rank) {
    nodes += nodes_in(micro_batch_range(rank, processes, micro_batches)).size();
  }
  return nodes;
}

/// A simulation of several processes.
class Simulation {
 public:
  Simulation(const Parameters& parameters, const StepCosts& costs, const Interconnect& network,
             std::size_t processes, std::size_t micro_batches, const ExchangeOptions& options)
      : costs_(costs),
        network_(network),
        layout_(parameters, processes, options.bucket_bytes),
        processes_(static_cast<double>(processes)),
        values_(static_cast<double>(parameters.num_values())),
        value_bytes_(static_cast<double>(bytes_per_element(parameters.dtype()))),
        gradient_bytes_(options.bfloat16 ? 2.0 : value_bytes_),
        own_(busiest(processes, micro_batches)),
        nodes_(nodes_in(own_)),
        all_nodes_(static_cast<double>(count_nodes(processes, micro_batches))) {
    for (const ShardLayout::Bucket& bucket : layout_.buckets()) {
      sizes_.push_back(static_cast<double>(bucket.bounds.back() - bucket.bounds.front()));
    }
  }

  SimulatedStep run();

 private:
  double forward_and_backward() const { return costs_.forward + costs_.backward; }
  double sending(double bytes) const;
  double call(double bytes) const;
  double time_of_last_backward() const;
  double completion(const ShardLayout::Bucket& bucket) const;
  std::vector<double> completion_of_buckets() const;
  double wait_for_parameters() const;
  double sum_gradients(double computed);

  const StepCosts& costs_;
  const Interconnect& network_;
  ShardLayout layout_;
  double processes_, values_;
  double value_bytes_, gradient_bytes_;  ///< of a value when it is sent
  MicroBatches own_;
  std::vector<TreeNode> nodes_;  ///< of the process
  double all_nodes_;             ///< of all processes
  std::vector<double> sizes_{};  ///< values of each bucket
};

/// The time of sending all others their parts of so many bytes.
double Simulation::sending(double bytes) const {
  const double others = processes_ - 1.0;
  return bytes * others / processes_ / network_.bandwidth + others * message_seconds;
}

/// The time of exchanging short messages between all processes.
///
/// bytes  of all of them
double Simulation::call(double bytes) const {
  const auto depth = static_cast<double>(std::bit_width(layout_.buckets()[0].bounds.size() - 2));
  return 2.0 * depth * (network_.latency + 2.0 * message_seconds) +
         (depth + 1.0) * bytes / network_.bandwidth;
}

/// The time of backward of the last micro-batch, with the sums that it completes.
double Simulation::time_of_last_backward() const {
  const auto merged = static_cast<double>(std::bit_width(nodes_.back().count) - 1);
  return costs_.backward + merged * costs_.add;
}

/// When the gradients in a bucket are complete, from the start of backward.
double Simulation::completion(const ShardLayout::Bucket& bucket) const {
  const auto begin = costs_.complete.begin();
  return *std::max_element(begin + static_cast<std::ptrdiff_t>(bucket.first),
                           begin + static_cast<std::ptrdiff_t>(bucket.end));
}

/// When the buckets of the last node are complete, from the start of its backward.
std::vector<double> Simulation::completion_of_buckets() const {
  const double slower = time_of_last_backward() / costs_.backward;
  std::vector<double> times;
  for (const ShardLayout::Bucket& bucket : layout_.buckets()) {
    times.push_back(slower * completion(bucket));
  }
  return times;
}

/// How long forward of the first micro-batch waits for parameters, all in all. What it waits for
/// one bucket delays the reading of all later ones as well.
double Simulation::wait_for_parameters() const {
  double sent = 0.0, waited = 0.0;
  for (std::size_t i = sizes_.size(); i-- > 0;) {
    sent += sending(sizes_[i] * value_bytes_);
    const double share = completion(layout_.buckets()[i]) / costs_.backward;
    const double read = (1.0 - share) * costs_.forward;
    waited = std::max(waited, sent + network_.latency - read);
  }
  return waited;
}

/// Returns when the process has the sum of its shard.
///
/// computed  when backward of the last micro-batch ends
double Simulation::sum_gradients(double computed) {
  const std::vector<double> completion = completion_of_buckets();
  const double last_backward = computed - time_of_last_backward();
  double sent = 0.0, summed = computed;
  for (const TreeNode& node : nodes_) {
    const bool is_last = &node == &nodes_.back();
    const auto micro_batches = static_cast<double>(node.first + node.count - own_.begin);
    for (std::size_t bucket = 0; bucket < sizes_.size(); ++bucket) {
      const double complete =
          is_last ? last_backward + completion[bucket] : micro_batches * forward_and_backward();
      sent = std::max(sent, complete) + sending(sizes_[bucket] * gradient_bytes_);
      if (!is_last) continue;
      const double adding = (all_nodes_ - 1.0) / processes_ * sizes_[bucket] / values_ * costs_.add;
      summed = std::max(summed, sent + network_.latency) + adding;
    }
  }
  return summed;
}

SimulatedStep Simulation::run() {
  const auto micro_batches = static_cast<double>(own_.size());
  const double sums =
      (micro_batches - static_cast<double>(nodes_.size())) * costs_.add;  // within the process
  const double adding = (all_nodes_ - 1.0) / processes_ * costs_.add;
  const double computed = micro_batches * forward_and_backward() + sums;
  double gradients = network_.latency, gathering = network_.latency;  // of the parameters
  for (const double size : sizes_) {
    gradients += static_cast<double>(nodes_.size()) * sending(size * gradient_bytes_);
    gathering += sending(size * value_bytes_);
  }
  const double waited = wait_for_parameters();
  const double squares = values_ / kernels::elements_per_piece * sizeof(double);
  const double calls = static_cast<double>(calls_of_step) * call(0.0) + call(squares) - call(0.0);
  const double summed = sum_gradients(computed);
  SimulatedStep step;
  step.compute = computed + adding + costs_.update / processes_;
  step.exchange = gradients + gathering;
  step.overlap = gradients - (summed - computed - adding) + gathering - waited;
  step.seconds = waited + summed + costs_.update / processes_ + calls;
  const double bytes =
      static_cast<double>(nodes_.size()) * gradient_bytes_ + value_bytes_;  // of a parameter
  step.sent = static_cast<std::uint64_t>(values_ * bytes * (processes_ - 1.0) / processes_);
  return step;
}

}  // namespace

SimulatedStep simulate_step(const Parameters& parameters, const StepCosts& costs,
                            const Interconnect& network, std::size_t processes,
                            std::size_t micro_batches, const ExchangeOptions& options) {
  const auto all = static_cast<double>(micro_batches);
  SimulatedStep step;
  step.one_process =
      all * (costs.forward + costs.backward) + (all - 1.0) * costs.add + costs.update;
  if (processes == 1) {
    step.compute = step.one_process;
    step.seconds = step.one_process;
    step.efficiency = 1.0;
    return step;
  }
  const double one_process = step.one_process;
  step = Simulation(parameters, costs, network, processes, micro_batches, options).run();
  step.one_process = one_process;
  step.efficiency = one_process / (static_cast<double>(processes) * step.seconds);
  return step;
}

}  // namespace tapestry
