#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "train/properties/gradient_distance.h"
#include "train/properties/properties.h"
#include "train/properties/step.h"

namespace tapestry {
namespace {

constexpr double allowed_loss = 1e-5;      ///< relative
constexpr double allowed_gradient = 1e-3;  ///< relative; a ReLU may bend to the other side

/// Without any, the gradient of a model that has learnt its task is a difference of nearly equal
/// probabilities, of which rounding leaves nothing.
constexpr double least_label_smoothing = 0.1;

}  // namespace

PropertyResult precision(const Subject& subject) {
  const StepOptions options{.label_smoothing =
                                std::max(subject.label_smoothing, least_label_smoothing)};
  ExaminedModel exact = subject.copy(DType::float64);
  ExaminedModel rounded = subject.copy(DType::float32);
  const Step expected = run_step(exact, subject.batch, options);
  const Step found = run_step(rounded, subject.batch, options);

  const double loss = std::abs(found.loss - expected.loss) / std::abs(expected.loss);
  if (!(loss <= allowed_loss)) {
    return fails(fmt::format("loss {:.9g} in float32, {:.9g} in float64, allowed {:.0e} (relative)",
                             found.loss, expected.loss, allowed_loss));
  }
  const GradientDistance worst = largest_distance(exact, found, expected);
  if (worst.relative > allowed_gradient) {
    return fails(fmt::format("gradients of {} differ by {:.1e} (relative), allowed {:.0e}",
                             worst.parameter, worst.relative, allowed_gradient));
  }
  return holds(
      fmt::format("float32 against float64, relative: loss {:.1e} (allowed {:.0e}), gradients up "
                  "to {:.1e} ({:.0e})",
                  loss, allowed_loss, worst.relative, allowed_gradient));
}

}  // namespace tapestry
