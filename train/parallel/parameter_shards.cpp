#include "train/parallel/parameter_shards.h"

#include <cmath>
#include <string>

#include "autograd/kernels/parallel.h"
#include "optim/optimizer.h"
#include "train/parallel/memory_blocks.h"
#include "train/platform/message.h"

namespace tapestry {

ParameterShards::ParameterShards(Parameters& parameters, ProcessGroup& group,
                                 std::size_t bucket_bytes)
    : parameters_(parameters), group_(group) {
  if (group.size() == 1) return;
  layout_.emplace(parameters, group.size(), bucket_bytes);
  exchange_.emplace(parameters, *layout_, group);
  own_ = layout_->element_ranges(group.rank());
}

/// Each process computes the sums of squares of its pieces. From then on an error ends all
/// processes: those that go on to update() wait for the parameters of this one.
double ParameterShards::gradient_norm() {
  if (group_.size() == 1) return global_gradient_norm(parameters_.list());
  const std::vector<std::string> found = group_.all_gather([&] {
    MessageWriter squares;
    for (const double square : squares_of_gradients(parameters_.list(), own_)) squares.put(square);
    return squares.take();
  });
  double norm = 0.0;
  group_.transfer([&] { norm = std::sqrt(add_squares(found)); });
  return norm;
}

/// Adds the squares of all processes in the order of the parameters, of which each is divided in
/// the order of the ranks.
///
/// found  by each process
double ParameterShards::add_squares(const std::vector<std::string>& found) const {
  std::vector<MessageReader> squares(found.begin(), found.end());
  std::vector<std::vector<ElementRange>> ranges;
  for (std::size_t rank = 0; rank < group_.size(); ++rank) {
    ranges.push_back(layout_->element_ranges(rank));
  }
  double sum = 0.0;
  for (std::size_t i = 0; i < parameters_.list().size(); ++i) {
    if (!parameters_.list()[i].tensor.gradient().defined()) continue;
    for (std::size_t rank = 0; rank < group_.size(); ++rank) {
      const std::size_t pieces =
          (ranges[rank][i].size() + kernels::elements_per_piece - 1) / kernels::elements_per_piece;
      for (std::size_t piece = 0; piece < pieces; ++piece) sum += squares[rank].get<double>();
    }
  }
  return sum;
}

void ParameterShards::update(const std::function<void()>& change) {
  if (group_.size() == 1) return change();
  // A process that alone cancelled an update would keep the others waiting.
  const kernels::UncancellableScope whole;
  group_.transfer([&] {
    exchange_->complete();
    change();
    exchange_->begin();
  });
}

void ParameterShards::gather_gradients() {
  if (group_.size() == 1) return;
  group_.transfer([&] {
    std::vector<Tensor> gradients;
    for (const NamedTensor& parameter : parameters_) {
      gradients.push_back(parameter.tensor.gradient());
    }
    std::vector<ProcessGroup::Transfer> transfers;
    if (group_.is_rank_0()) {
      for (std::size_t from = 1; from < group_.size(); ++from) {
        for (const std::span<std::byte> block :
             memory_blocks(gradients, layout_->element_ranges(from))) {
          transfers.push_back(group_.start_receive(from, block));
        }
      }
    } else {
      for (const std::span<std::byte> block : memory_blocks(gradients, own_)) {
        transfers.push_back(group_.start_send(0, block));
      }
    }
    for (const ProcessGroup::Transfer& transfer : transfers) group_.wait(transfer);
  });
}

void ParameterShards::gather_state(
    std::span<const NamedTensor> state,
    const std::function<std::span<std::byte>(std::size_t i)>& whole) {
  if (group_.size() == 1) return;
  group_.transfer([&] {
    const std::size_t parameters = parameters_.list().size();
    const std::size_t bytes = bytes_per_element(parameters_.dtype());
    std::vector<ProcessGroup::Transfer> transfers;
    for (std::size_t from = 1; group_.is_rank_0() && from < group_.size(); ++from) {
      const std::vector<ElementRange> ranges = layout_->element_ranges(from);
      for (std::size_t i = 0; i < state.size(); ++i) {
        const ElementRange& range = ranges[i % parameters];
        if (range.size() == 0) continue;
        transfers.push_back(group_.start_receive(
            from, whole(i).subspan(range.begin * bytes, range.size() * bytes)));
      }
    }
    for (std::size_t i = 0; !group_.is_rank_0() && i < state.size(); ++i) {
      const Tensor& tensor = state[i].tensor;
      transfers.push_back(group_.start_send(0, element_bytes(tensor, {0, tensor.size()})));
    }
    for (const ProcessGroup::Transfer& transfer : transfers) group_.wait(transfer);
  });
}

}  // namespace tapestry
