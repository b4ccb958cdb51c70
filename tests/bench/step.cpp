#include "tests/bench/step.h"

#include "autograd/profiler.h"
#include "autograd/tape.h"
#include "optim/optimizer.h"

namespace tapestry::bench {

TrainingStep::TrainingStep(const Problem& problem)
    : model_(problem),
      batch_(problem),
      optimizer_(make_optimizer({}, model_.parameters().list())) {}

void TrainingStep::run() {
  model_.parameters().clear_gradients();
  Tape tape;
  tape.backward(model_.loss(
      batch_, Mode::training(RandomStream(1).named("dropout").at(optimizer_->steps()))));
  const double norm = gradient_norm();
  update_parameters(norm);
}

double TrainingStep::gradient_norm() const {
  const ProfileScope scope("gradient norm", Phase::other);
  return global_gradient_norm(model_.parameters().list());
}

void TrainingStep::update_parameters(double norm) {
  const ProfileScope scope("optimizer step", Phase::other);
  optimizer_->step(/*learning_rate=*/1e-4, clip_factor(norm, /*max_norm=*/1.0));
}

double TrainingStep::evaluate() const { return model_.loss(batch_, Mode::inference()).item(); }

}  // namespace tapestry::bench
