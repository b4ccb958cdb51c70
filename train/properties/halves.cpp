#include <fmt/format.h>

#include <cmath>

#include "train/properties/batch_rows.h"
#include "train/properties/gradient_distance.h"
#include "train/properties/properties.h"
#include "train/properties/step.h"

namespace tapestry {
namespace {

constexpr double allowed = 1e-12;  ///< what rounding in float64 may leave, relative

}  // namespace

PropertyResult halves(const Subject& subject) {
  const Batch& whole = subject.batch;
  if (whole.rows < 2) return not_asked("there is one sentence alone to train on");
  ExaminedModel model = subject.copy(DType::float64);
  const StepOptions options{.label_smoothing = subject.label_smoothing,
                            .normalizer = whole.target_tokens};
  const Step expected = run_step(model, whole, options);
  model.clear_gradients();
  const std::size_t middle = whole.rows / 2;
  const Step first = run_step(model, rows_of(whole, 0, middle), options);
  const Step both = run_step(model, rows_of(whole, middle, whole.rows), options);

  const double loss = first.loss + both.loss;
  if (!(std::abs(loss - expected.loss) <= allowed * std::abs(expected.loss))) {
    return fails(
        fmt::format("the losses of the halves add up to {:.15g}, that of the whole is {:.15g}",
                    loss, expected.loss));
  }
  const GradientDistance worst = largest_distance(model, both, expected);
  const std::string figures = fmt::format("{:.1e}, allowed {:.0e}", worst.relative, allowed);
  if (worst.relative > allowed) {
    return fails(
        fmt::format("gradients of {} differ from those of the whole batch by {} (relative)",
                    worst.parameter, figures));
  }
  return holds(fmt::format(
      "gradients of {} + {} sentences add up to those of {} (largest relative difference {})",
      middle, whole.rows - middle, whole.rows, figures));
}

}  // namespace tapestry
