#include "train/loop/weight_statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/shape.h"
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

bool is_matrix(const BlockWeights::Parameter& parameter) { return parameter.shape.rank() >= 2; }

/// The block with the statistics of its matrices.
void finish(BlockWeights& block, std::span<const NamedTensor> tensors) {
  const bool has_matrix = std::ranges::any_of(block.parameters, is_matrix);
  std::vector<Tensor> chosen;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!has_matrix || is_matrix(block.parameters[i])) chosen.push_back(tensors[i].tensor);
  }
  block.matrices = weight_statistics(chosen);
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
  const std::vector<NamedTensor>& list = parameters.list();
  std::vector<BlockWeights> blocks;
  std::size_t begin = 0;  // of the last block
  for (std::size_t i = 0; i <= list.size(); ++i) {
    const std::string path = i < list.size() ? block_path(list[i].name) : std::string();
    if (i == list.size() || blocks.empty() || blocks.back().path != path) {
      if (!blocks.empty()) finish(blocks.back(), std::span(list).subspan(begin, i - begin));
      if (i == list.size()) break;
      blocks.push_back({.path = path, .matrices = {}, .parameters = {}});
      begin = i;
    }
    const Tensor& tensor = list[i].tensor;
    blocks.back().parameters.push_back(
        {.name = list[i].name == path ? path : list[i].name.substr(path.size() + 1),
         .shape = tensor.shape(),
         .frozen = !tensor.requires_gradient(),
         .statistics = weight_statistics(std::span(&tensor, 1))});
  }
  return blocks;
}

}  // namespace tapestry
