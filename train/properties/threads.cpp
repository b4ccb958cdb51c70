#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "autograd/kernels/parallel.h"
#include "train/properties/properties.h"
#include "train/properties/step.h"

namespace tapestry {
namespace {

/// Kernels use this many threads while it is alive.
class ThreadsForNow {
 public:
  explicit ThreadsForNow(std::size_t number) : previous_(kernels::num_threads()) {
    kernels::set_num_threads(number);
  }
  ~ThreadsForNow() { kernels::set_num_threads(previous_); }
  ThreadsForNow(const ThreadsForNow&) = delete;
  ThreadsForNow& operator=(const ThreadsForNow&) = delete;

 private:
  std::size_t previous_;
};

std::vector<std::size_t> numbers_to_try() {
  std::vector<std::size_t> numbers = {1, 2, 3};
  if (kernels::num_threads() > 3) numbers.push_back(kernels::num_threads());
  return numbers;
}

Step step_on(std::size_t number, ExaminedModel& model, const Subject& subject) {
  const ThreadsForNow for_now(number);
  model.clear_gradients();
  return run_step(model, subject.large_batch, training_options(subject));
}

}  // namespace

PropertyResult threads(const Subject& subject) {
  ExaminedModel model = subject.copy(subject.dtype);
  const std::vector<std::size_t> numbers = numbers_to_try();
  const Step alone = step_on(numbers.front(), model, subject);
  for (const std::size_t number : std::span(numbers).subspan(1)) {
    if (const auto difference = first_difference(model, alone, step_on(number, model, subject))) {
      return fails(fmt::format("on 1 thread and then {}: {}", number, *difference));
    }
  }
  return holds(fmt::format(
      "logits, loss and {} gradients have the same bits on {} threads ({}, {} sentences)",
      alone.gradients.size(), fmt::join(numbers, ", "), name(subject.dtype),
      subject.large_batch.rows));
}

}  // namespace tapestry
