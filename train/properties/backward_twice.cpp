#include <fmt/format.h>

#include "train/properties/gradient_distance.h"
#include "train/properties/properties.h"
#include "train/properties/step.h"

namespace tapestry {
namespace {

/// What rounding in float64 may leave, relative: a tensor used in several places gets (a + b) + a +
/// b.
constexpr double allowed = 1e-12;

Step doubled(Step step) {
  for (auto& gradient : step.gradients) {
    for (double& g : gradient) g *= 2.0;
  }
  return step;
}

}  // namespace

PropertyResult backward_twice(const Subject& subject) {
  ExaminedModel model = subject.copy(DType::float64);
  const StepOptions options = training_options(subject);
  const Step first = run_step(model, subject.batch, options);
  model.clear_gradients();
  const Step again = run_step(model, subject.batch, options);
  if (const auto difference = first_difference(model, first, again)) {
    return fails("done again: " + *difference);
  }
  const Step sums = run_step(model, subject.batch, options);
  const GradientDistance worst = largest_distance(model, sums, doubled(first));
  if (worst.relative > allowed) {
    return fails(fmt::format(
        "gradients of {} that were not cleared differ by {:.1e} (relative) from twice their first "
        "values, allowed {:.0e}",
        worst.parameter, worst.relative, allowed));
  }
  return holds(fmt::format(
      "loss and gradients have the same bits again; not cleared, they double (to {:.1e}, allowed "
      "{:.0e})",
      worst.relative, allowed));
}

}  // namespace tapestry
