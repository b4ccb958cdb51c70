// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "autograd/kernels/parallel.h"
#include "train/checks/check.h"
#include "train/checks/one_step.h"

namespace tapestry {
namespace {

/// Relative tolerance for float64 sums that add the same terms in a different order.
constexpr double float64_tolerance = 1e-12;

// Relative tolerances for comparing float32 with float64. A ReLU input near 0 may change its sign.
constexpr double float32_loss_tolerance = 1e-5;
constexpr double float32_gradient_tolerance = 1e-3;

/// Label smoothing for the comparison of float32 with float64. Without label smoothing, the
/// gradient of a fully trained model is a difference of nearly equal probabilities, which float32
/// cannot represent accurately.
constexpr double min_label_smoothing = 0.1;

/// Sets the number of threads until the end of its scope.
class ThreadCount {
 public:
  explicit ThreadCount(std::size_t number) : previous_(kernels::num_threads()) {
    kernels::set_num_threads(number);
  }
  ~ThreadCount() { kernels::set_num_threads(previous_); }
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  std::size_t previous_;
};

std::vector<std::size_t> thread_counts() {
  std::vector<std::size_t> counts = {1, 2, 3};
  if (kernels::num_threads() > 3) counts.push_back(kernels::num_threads());
  return counts;
}

StepValues step_on_threads(std::size_t count, CheckedModel& model, const CheckContext& context) {
  const ThreadCount threads(count);
  model.zero_grad();
  return run_step(model, context.large_batch, training_options(context));
}

StepValues with_doubled_gradients(StepValues step) {
  for (auto& gradient : step.gradients) {
    for (double& g : gradient) g *= 2.0;
  }
  return step;
}

}  // namespace

CheckResult threads(const CheckContext& context) {
  CheckedModel model = context.copy(context.dtype);
  const std::vector<std::size_t> counts = thread_counts();
  const StepValues single = step_on_threads(counts.front(), model, context);
  for (const std::size_t count : std::span(counts).subspan(1)) {
    const StepValues step = step_on_threads(count, model, context);
    if (const auto difference = first_difference(model, single, step)) {
      return failed(fmt::format("on 1 thread, then on {}: {}", count, *difference));
    }
  }
  return passed(fmt::format(
      "logits, loss and {} gradients have the same bits on {} threads ({}, {} examples)",
      single.gradients.size(), fmt::join(counts, ", "), name(context.dtype),
      context.large_batch.rows));
}

CheckResult gradient_accumulation(const CheckContext& context) {
  const Batch& whole = context.batch;
  if (whole.rows < 2) return skipped("the training set has only one example");
  CheckedModel model = context.copy(DType::float64);
  const StepOptions options{.label_smoothing = context.label_smoothing,
                            .normalizer = whole.target_tokens};
  const StepValues expected = run_step(model, whole, options);
  model.zero_grad();
  const std::size_t middle = whole.rows / 2;
  const StepValues first = run_step(model, select_rows(whole, 0, middle), options);
  const StepValues both = run_step(model, select_rows(whole, middle, whole.rows), options);

  const double loss = first.loss + both.loss;
  if (!(std::abs(loss - expected.loss) <= float64_tolerance * std::abs(expected.loss))) {
    return failed(fmt::format(
        "the losses of the two half batches add up to {:.15g}, the loss of the whole is {:.15g}",
        loss, expected.loss));
  }
  const GradientDistance worst = max_distance(model, both, expected);
  const std::string figures =
      fmt::format("{:.1e}, tolerance {:.0e}", worst.relative, float64_tolerance);
  if (worst.relative > float64_tolerance) {
    return failed(
        fmt::format("accumulated gradients of {} differ from the whole batch by {} (relative)",
                    worst.parameter, figures));
  }
  return passed(
      fmt::format("gradients of {} + {} examples add up to the gradients of {} (largest relative "
                  "difference {})",
                  middle, whole.rows - middle, whole.rows, figures));
}

CheckResult repeated_step(const CheckContext& context) {
  CheckedModel model = context.copy(DType::float64);
  const StepOptions options = training_options(context);
  const StepValues first = run_step(model, context.batch, options);
  model.zero_grad();
  const StepValues again = run_step(model, context.batch, options);
  if (const auto difference = first_difference(model, first, again)) {
    return failed("repeated: " + *difference);
  }
  const StepValues sums = run_step(model, context.batch, options);
  const GradientDistance worst = max_distance(model, sums, with_doubled_gradients(first));
  if (worst.relative > float64_tolerance) {
    return failed(fmt::format(
        "gradients of {} that were not cleared differ from twice the original gradients by {:.1e} "
        "(relative), tolerance {:.0e}",
        worst.parameter, worst.relative, float64_tolerance));
  }
  return passed(
      fmt::format("a repeated step is bit-identical; gradients that are not cleared double (up to "
                  "{:.1e}, tolerance {:.0e})",
                  worst.relative, float64_tolerance));
}

CheckResult precision(const CheckContext& context) {
  const StepOptions options{.label_smoothing =
                                std::max(context.label_smoothing, min_label_smoothing)};
  CheckedModel exact = context.copy(DType::float64);
  CheckedModel rounded = context.copy(DType::float32);
  const StepValues expected = run_step(exact, context.batch, options);
  const StepValues found = run_step(rounded, context.batch, options);

  const double loss = std::abs(found.loss - expected.loss) / std::abs(expected.loss);
  if (!(loss <= float32_loss_tolerance)) {
    return failed(
        fmt::format("loss {:.9g} in float32, {:.9g} in float64, tolerance {:.0e} (relative)",
                    found.loss, expected.loss, float32_loss_tolerance));
  }
  const GradientDistance worst = max_distance(exact, found, expected);
  if (worst.relative > float32_gradient_tolerance) {
    return failed(fmt::format("gradients of {} differ by {:.1e} (relative), tolerance {:.0e}",
                              worst.parameter, worst.relative, float32_gradient_tolerance));
  }
  return passed(fmt::format(
      "float32 against float64, relative: loss {:.1e} (tolerance {:.0e}), gradients up to {:.1e} "
      "({:.0e})",
      loss, float32_loss_tolerance, worst.relative, float32_gradient_tolerance));
}

}  // namespace tapestry
