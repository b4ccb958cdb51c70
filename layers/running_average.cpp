#include "layers/running_average.h"

#include <fmt/format.h>

#include "autograd/error.h"

namespace tapestry {

RunningAverage::RunningAverage(const Tensor& value)
    : state_(std::make_shared<State>(State{.value = value, .notes = {}})) {}

void RunningAverage::note(const Tensor& seen, double keep, double take) const {
  if (seen.shape() != value().shape()) {
    throw ShapeError(fmt::format("running average: what is noted has shape {}, expected {}",
                                 to_string(seen.shape()), to_string(value().shape())));
  }
  common_dtype("running average", value(), seen);
  state_->notes.push_back({seen, keep, take});
}

void RunningAverage::commit() const {
  dispatch(value().dtype(), [&]<class T>() {
    const auto values = state_->value.mutable_values<T>();
    for (const Note& note : state_->notes) {
      const auto seen = note.seen.values<T>();
      const auto keep = static_cast<T>(note.keep), take = static_cast<T>(note.take);
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = keep * values[i] + take * seen[i];
      }
    }
  });
  discard();
}

void RunningAverage::discard() const { state_->notes.clear(); }

}  // namespace tapestry
