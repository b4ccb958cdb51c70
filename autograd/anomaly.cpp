// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/anomaly.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "autograd/error.h"
#include "autograd/gradient.h"

namespace tapestry {
namespace {

using Clock = std::chrono::steady_clock;

/// The range of a tensor's finite values, the number of its non-finite values, and the first
/// non-finite value.
struct Survey {
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();
  std::size_t not_finite = 0;
  std::size_t first = 0;  ///< row-major position of the first non-finite value
  double found = 0.0;     ///< the first non-finite value
};

Survey survey(const Tensor& tensor) {
  Survey survey;
  dispatch(tensor.dtype(), [&]<class T>() {
    const auto values = tensor.values<T>();
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto value = static_cast<double>(values[i]);
      if (std::isfinite(value)) {
        survey.min = std::min(survey.min, value);
        survey.max = std::max(survey.max, value);
      } else if (survey.not_finite++ == 0) {
        survey.first = i;
        survey.found = value;
      }
    }
  });
  return survey;
}

/// `(2, 3) in [-1.5, 4]`, and the number of non-finite values if there are any.
std::string range(const Tensor& tensor) {
  if (!tensor.defined()) return "absent";
  const Survey s = survey(tensor);
  std::string text = to_string(tensor.shape());
  if (s.not_finite < tensor.size()) text += fmt::format(" in [{:.6g}, {:.6g}]", s.min, s.max);
  if (s.not_finite > 0) text += fmt::format(", {} values not finite", s.not_finite);
  return text;
}

std::string ranges(const std::vector<Tensor>& inputs) {
  std::string text;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    text += fmt::format("\n  input {}: {}", i + 1, range(inputs[i]));
  }
  return text;
}

/// `nan at [0, 2] and 3 more`; empty if all values are finite.
std::optional<std::string> anomaly_in(const Tensor& tensor) {
  const Survey s = survey(tensor);
  if (s.not_finite == 0) return std::nullopt;
  const std::string place = place_in(tensor.shape(), s.first);
  const double found = printable(s.found);
  return s.not_finite == 1 ? fmt::format("{} at {}", found, place)
                           : fmt::format("{} at {} and {} more", found, place, s.not_finite - 1);
}

/// Adds the time from its construction to its destruction to a sum.
class Stopwatch {
 public:
  explicit Stopwatch(Clock::duration& sum) : sum_(sum) {}
  ~Stopwatch() { sum_ += Clock::now() - started_; }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  Clock::duration& sum_;
  Clock::time_point started_ = Clock::now();
};

}  // namespace

void AnomalyDetector::forward_ran(const RecordedCall& call) {
  const Stopwatch stopwatch(time_);
  const std::vector<Tensor> inputs(call.inputs.begin(), call.inputs.end());
  if (const auto found = anomaly_in(call.output)) {
    throw AnomalyError(fmt::format("{}: forward: the output has {}, expected finite numbers{}",
                                   call.operation, *found, ranges(inputs)));
  }
  calls_.push_back({call.operation, call.output.slot().get(), inputs});
}

void AnomalyDetector::backward_ran(const GradientSlot& output, const Tensor& dy) {
  const Stopwatch stopwatch(time_);
  const auto call = std::ranges::find(calls_, &output, &Call::output);
  if (call == calls_.end()) return;
  for (std::size_t i = 0; i < call->inputs.size(); ++i) {
    const Tensor& input = call->inputs[i];
    if (!input.defined() || !input.requires_grad() || !input.slot()->filled()) continue;
    const auto found = anomaly_in(input.slot()->value());
    if (!found) continue;
    throw AnomalyError(
        fmt::format("{}: backward: the accumulated gradient of input {} has {}, expected finite "
                    "numbers\n  gradient of the output: {}{}",
                    call->operation, i + 1, *found, range(dy), ranges(call->inputs)));
  }
}

}  // namespace tapestry
