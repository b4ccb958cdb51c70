// SPDX-License-Identifier: BSD-3-Clause
#include "train/recording/weights.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>
#include <utility>

#include "train/models/model_summary.h"

namespace tapestry {
namespace {

/// Calls visit(x) with each value as double.
void visit_values(std::span<const Tensor> tensors, const auto& visit) {
  for (const Tensor& tensor : tensors) {
    dispatch(tensor.dtype(), [&]<class T>() {
      for (const T value : tensor.values<T>()) visit(static_cast<double>(value));
    });
  }
}

/// Calls visit(x) with each finite value.
void visit_finite(std::span<const Tensor> tensors, const auto& visit) {
  visit_values(tensors, [&](double x) {
    if (std::isfinite(x)) visit(x);
  });
}

Histogram make_histogram(std::span<const Tensor> tensors, double low, double high,
                         std::size_t intervals) {
  Histogram histogram{.low = low, .high = high, .counts = {}};
  const double width = high - low;
  histogram.counts.resize(width > 0.0 && std::isfinite(width) ? intervals : 1);
  const double scale = static_cast<double>(histogram.counts.size()) / (width > 0.0 ? width : 1.0);
  visit_finite(tensors, [&](double x) {
    const auto interval = static_cast<std::size_t>((x - low) * scale);
    ++histogram.counts[std::min(interval, histogram.counts.size() - 1)];
  });
  return histogram;
}

/// The parameters with two or more axes; all parameters if no parameter has two axes.
std::vector<Tensor> matrices_of(std::span<const NamedTensor> parameters) {
  std::vector<Tensor> all, matrices;
  for (const NamedTensor& parameter : parameters) {
    all.push_back(parameter.tensor);
    if (parameter.tensor.shape().rank() >= 2) matrices.push_back(parameter.tensor);
  }
  return matrices.empty() ? all : matrices;
}

}  // namespace

double WeightStatistics::root_mean_square() const {
  const std::uint64_t finite = values - not_finite;
  return finite == 0 ? 0.0 : norm / std::sqrt(static_cast<double>(finite));
}

WeightStatistics weight_statistics(std::span<const Tensor> tensors, std::size_t intervals) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  WeightStatistics s{.low = infinity, .high = -infinity};
  double sum = 0.0, squares = 0.0;
  visit_values(tensors, [&](double x) {
    ++s.values;
    if (!std::isfinite(x)) {
      ++s.not_finite;
      return;
    }
    if (x == 0.0) ++s.zeros;
    sum += x;
    squares += x * x;
    s.low = std::min(s.low, x);
    s.high = std::max(s.high, x);
  });
  const auto finite = static_cast<double>(s.values - s.not_finite);
  if (finite == 0.0) return {.values = s.values, .not_finite = s.not_finite};
  s.norm = std::sqrt(squares);
  s.mean = sum / finite;
  double distances = 0.0;
  visit_finite(tensors, [&](double x) { distances += (x - s.mean) * (x - s.mean); });
  s.deviation = std::sqrt(distances / finite);
  s.histogram = make_histogram(tensors, s.low, s.high, intervals);
  return s;
}

std::vector<BlockWeights> weights_by_block(const Parameters& parameters) {
  std::vector<BlockWeights> blocks;
  for (const auto& [path, tensors] : parameter_blocks(parameters)) {
    BlockWeights& block = blocks.emplace_back(BlockWeights{
        .path = path, .matrices = weight_statistics(matrices_of(tensors)), .parameters = {}});
    for (const auto& [name, tensor] : tensors) {
      block.parameters.push_back({.name = name_in_block(name, path),
                                  .shape = tensor.shape(),
                                  .frozen = !tensor.requires_grad(),
                                  .statistics = weight_statistics(std::span(&tensor, 1))});
    }
  }
  return blocks;
}

namespace {

/// Sums of squares of the old values, and of the differences between new and old values.
struct Squares {
  double values = 0.0, differences = 0.0;
};

void add_squares(const Tensor& before, const Tensor& after, Squares& sums) {
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

/// The update ratio |w' - w| / |w| of a step from w to w'.
double update_ratio(const std::vector<Tensor>& before, const std::vector<Tensor>& after) {
  Squares sums;
  for (std::size_t i = 0; i < before.size(); ++i) add_squares(before[i], after[i], sums);
  return std::sqrt(sums.differences / sums.values);
}

/// The gradients of all tensors that have a gradient.
std::vector<Tensor> gradients_of(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> gradients;
  for (const Tensor& tensor : tensors) {
    Tensor gradient = tensor.grad();
    if (gradient.defined()) gradients.push_back(std::move(gradient));
  }
  return gradients;
}

}  // namespace

WeightWatch::WeightWatch(const Parameters& parameters) {
  for (const auto& [path, tensors] : parameter_blocks(parameters)) {
    blocks_.push_back({path, matrices_of(tensors)});
  }
}

bool WeightWatch::before_update() {
  before_.clear();
  ratios_.clear();
  try {
    for (const Block& block : blocks_) {
      std::vector<Tensor>& copies = before_.emplace_back();
      for (const Tensor& tensor : block.tensors) copies.push_back(tensor.clone());
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
    ratios_.push_back(update_ratio(before_[b], blocks_[b].tensors));
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
    record.gradients = weight_statistics(gradients_of(blocks_[b].tensors), intervals);
  }
  return records;
}

}  // namespace tapestry
