// SPDX-License-Identifier: BSD-3-Clause
#include "optim/weight_average.h"

#include <fmt/format.h>

#include <algorithm>

#include "autograd/error.h"
#include "autograd/kernels/optimizer_update.h"
#include "autograd/kernels/parallel.h"
#include "optim/optimizer.h"

namespace tapestry {
namespace {

/// Divides the range of each tensor into pieces and calls f(n, value, average) for each piece, on
/// all threads: n elements from the pointers `value` and `average`.
template <class F>
void for_each_piece(std::vector<NamedTensor>& values, const std::vector<ElementRange>& ranges,
                    std::vector<NamedTensor>& averages, const F& f) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    dispatch(values[i].tensor.dtype(), [&]<class T>() {
      T* const value = values[i].tensor.mutable_values<T>().data() + ranges[i].begin;
      T* const average = averages[i].tensor.mutable_values<T>().data();
      const std::size_t n = ranges[i].size(), step = kernels::elements_per_piece;
      kernels::parallel_for((n + step - 1) / step, [&](std::size_t piece) {
        const std::size_t begin = piece * step;
        f(std::min(step, n - begin), value + begin, average + begin);
      });
    });
  }
}

}  // namespace

WeightAverage::WeightAverage(std::span<const NamedTensor> parameters, double decay,
                             std::span<const ElementRange> ranges)
    : parameters_(parameters.begin(), parameters.end()),
      ranges_(element_ranges(parameters, ranges)),
      decay_(decay) {
  if (parameters_.empty()) {
    throw ValueError("weight average: there are no parameters, expected one or more");
  }
  if (!(decay > 0.0 && decay < 1.0)) {
    throw ValueError(fmt::format("weight average: decay is {}, expected a number between 0 and 1",
                                 printable(decay)));
  }
  averages_ = zero_state("average", parameters_, ranges_);
  for (std::size_t i = 0; i < averages_.size(); ++i) averages_[i].name = parameters_[i].name;
  reset();
}

void WeightAverage::reset() {
  for_each_piece(
      parameters_, ranges_, averages_,
      []<class T>(std::size_t n, const T* value, T* average) { std::copy_n(value, n, average); });
}

void WeightAverage::update(std::uint64_t t) {
  if (t == 0) throw ValueError("weight average: t is 0, expected the number of an update, from 1");
  const auto updates = static_cast<double>(t);
  const double decay = std::min(decay_, (1.0 + updates) / (10.0 + updates));
  for_each_piece(parameters_, ranges_, averages_,
                 [decay]<class T>(std::size_t n, const T* value, T* average) {
                   kernels::average_update(n, decay, value, average);
                 });
}

void WeightAverage::swap() {
  for_each_piece(parameters_, ranges_, averages_, []<class T>(std::size_t n, T* value, T* average) {
    std::swap_ranges(value, value + n, average);
  });
}

}  // namespace tapestry
