#include "train/parallel/step_division.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "train/parallel/sum_tree.h"

namespace tapestry {

StepDivision divide_step(std::size_t processes, std::size_t micro_batches,
                         std::uint64_t parameter_bytes, std::uint64_t gradient_bytes) {
  if (processes == 0 || processes > micro_batches) {
    throw std::invalid_argument(
        fmt::format("divide_step: found {} processes, expected 1 to {}, the number of "
                    "micro-batches",
                    processes, micro_batches));
  }
  StepDivision division;
  const std::uint64_t values = parameter_bytes / processes * (processes - 1);
  const std::uint64_t gradients = gradient_bytes / processes * (processes - 1);
  division.least_sent = values + gradients;
  for (std::size_t rank = 0; rank < processes; ++rank) {
    const MicroBatches own = micro_batch_range(rank, processes, micro_batches);
    division.micro_batches.push_back(own.size());
    const std::uint64_t sent = nodes_in(own).size() * gradients + values;
    division.most_sent = std::max(division.most_sent, sent);
    division.all_sent += sent;
  }
  const auto most = static_cast<double>(std::ranges::max(division.micro_batches));
  const auto all = static_cast<double>(micro_batches);
  division.idle_share = 1.0 - all / (static_cast<double>(processes) * most);
  return division;
}

}  // namespace tapestry
