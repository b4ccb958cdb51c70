#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "optim/adam.h"
#include "optim/clip.h"
#include "train/properties/least_loss.h"
#include "train/properties/properties.h"
#include "train/properties/step.h"

namespace tapestry {
namespace {

constexpr std::size_t most_steps = 600;
constexpr double learnt = 0.05;  ///< nats per token, above what no model can learn
constexpr double learning_rate = 1e-3;
constexpr std::size_t warmup_steps = 50;  ///< deep post-norm models need them
constexpr double clip_norm = 1.0;

/// Adam with settings of its own: what is tried is the model, not the configured optimiser.
class Learner {
 public:
  explicit Learner(ExaminedModel model)
      : model_(std::move(model)), adam_(model_.parameters, OptimizerOptions{}) {}

  /// One step; the loss before it.
  double step(const Batch& batch) {
    model_.clear_gradients();
    const double loss = run_step(model_, batch, {}).loss;
    const double norm = global_gradient_norm(model_.parameters);
    const auto next = static_cast<double>(adam_.steps() + 1);
    const double warmth = std::min(1.0, next / static_cast<double>(warmup_steps));
    adam_.step(warmth * learning_rate, clip_factor(norm, clip_norm));
    return loss;
  }

 private:
  ExaminedModel model_;
  Adam adam_;
};

}  // namespace

PropertyResult by_heart(const Subject& subject) {
  Learner learner(subject.copy(DType::float32));
  const double least = least_loss(subject.batch, subject.causal);
  const double enough = least + learnt;
  const double first = learner.step(subject.batch);
  double loss = first;
  std::size_t steps = 1;
  while (steps < most_steps && std::isfinite(loss) && loss >= enough) {
    loss = learner.step(subject.batch);
    ++steps;
  }
  std::string course = fmt::format("loss of {} sentences from {:.3f} to {:.4f} in {} steps",
                                   subject.batch.rows, first, loss, steps - 1);
  if (least > 0.0) course += fmt::format(", {:.4f} of which nobody can learn", least);
  if (loss >= enough && !subject.handicap.empty()) {
    return not_asked(fmt::format("{}: {}", course, subject.handicap));
  }
  return loss < enough ? holds(course)
                       : fails(fmt::format("{}, expected less than {:.4g}", course, enough));
}

}  // namespace tapestry
