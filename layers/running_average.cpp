// SPDX-License-Identifier: BSD-3-Clause
#include "layers/running_average.h"

#include <fmt/format.h>

#include "autograd/error.h"

namespace tapestry {

RunningAverage::RunningAverage(const Tensor& value)
    : state_(std::make_shared<State>(State{.value = value, .updates = {}})) {}

void RunningAverage::update(const Tensor& batch_value, double momentum) const {
  update(batch_value, 1 - momentum, momentum);
}

void RunningAverage::update(const Tensor& batch_value, double decay, double weight) const {
  if (batch_value.shape() != value().shape()) {
    throw ShapeError(fmt::format("running average: the update has shape {}, expected {}",
                                 to_string(batch_value.shape()), to_string(value().shape())));
  }
  common_dtype("running average", value(), batch_value);
  state_->updates.push_back({batch_value, decay, weight});
}

void RunningAverage::commit() const {
  dispatch(value().dtype(), [&]<class T>() {
    const auto values = state_->value.mutable_values<T>();
    for (const Update& update : state_->updates) {
      const auto batch_values = update.batch_value.values<T>();
      const auto decay = static_cast<T>(update.decay), weight = static_cast<T>(update.weight);
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = decay * values[i] + weight * batch_values[i];
      }
    }
  });
  discard();
}

void RunningAverage::discard() const { state_->updates.clear(); }

}  // namespace tapestry
