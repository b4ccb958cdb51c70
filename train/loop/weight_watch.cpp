#include "train/loop/weight_watch.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <utility>

#include "autograd/shape.h"
#include "train/models/model_summary.h"

namespace tapestry {
namespace {

/// The sums of squares of the values of a tensor and of their differences from another.
struct Squares {
  double values = 0.0, differences = 0.0;
};

void add(const Tensor& before, const Tensor& after, Squares& sums) {
  dispatch(before.dtype(), [&]<class T>() {
    const auto old = before.values<T>(), now = after.values<T>();
    for (std::size_t i = 0; i < old.size(); ++i) {
      const auto value = static_cast<double>(old[i]);
      const double difference = static_cast<double>(now[i]) - value;
      sums.values += value * value;
      sums.differences += difference * difference;
    }
  });
}

}  // namespace

WeightWatch::WeightWatch(const Parameters& parameters) {
  for (const NamedTensor& parameter : parameters.list()) {
    std::string path = block_path(parameter.name);
    if (blocks_.empty() || blocks_.back().path != path) blocks_.push_back({std::move(path), {}});
    blocks_.back().tensors.push_back(parameter.tensor);
  }
  const auto is_vector = [](const Tensor& tensor) { return tensor.shape().rank() < 2; };
  for (Block& block : blocks_) {
    if (!std::ranges::all_of(block.tensors, is_vector)) std::erase_if(block.tensors, is_vector);
  }
}

bool WeightWatch::before_update() {
  before_.clear();
  ratios_.clear();
  try {
    for (const Block& block : blocks_) {
      std::vector<Tensor>& copies = before_.emplace_back();
      for (const Tensor& tensor : block.tensors) copies.push_back(tensor.copied(tensor.dtype()));
    }
  } catch (const std::bad_alloc&) {
    before_.clear();
    return false;
  }
  return true;
}

void WeightWatch::after_update() {
  ratios_.clear();
  for (std::size_t b = 0; b < before_.size(); ++b) {
    Squares sums;
    for (std::size_t i = 0; i < before_[b].size(); ++i) {
      add(before_[b][i], blocks_[b].tensors[i], sums);
    }
    ratios_.push_back(std::sqrt(sums.differences / sums.values));
  }
  before_.clear();
}

std::vector<BlockRecord> WeightWatch::measure() {
  constexpr std::size_t intervals = 24;
  const std::vector<double> ratios = std::exchange(ratios_, {});
  std::vector<BlockRecord> records;
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    BlockRecord& record = records.emplace_back(BlockRecord{.path = blocks_[b].path});
    record.weights = weight_statistics(blocks_[b].tensors, intervals);
    if (ratios.empty()) continue;
    record.update_ratio = ratios[b];
    std::vector<Tensor> gradients;
    for (const Tensor& tensor : blocks_[b].tensors) {
      Tensor gradient = tensor.gradient();
      if (gradient.defined()) gradients.push_back(std::move(gradient));
    }
    record.gradients = weight_statistics(gradients, intervals);
  }
  return records;
}

}  // namespace tapestry
