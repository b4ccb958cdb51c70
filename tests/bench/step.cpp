#include "tests/bench/step.h"

#include "autograd/ops/cross_entropy.h"
#include "autograd/tape.h"
#include "optim/clip.h"
#include "optim/make_optimizer.h"

namespace tapestry::bench {

TrainingStep::TrainingStep(const Problem& problem)
    : model_(problem),
      batch_(problem),
      optimizer_(make_optimizer({}, model_.parameters().list())) {}

Tensor TrainingStep::loss(const RandomStream& dropout) const {
  const Tensor logits = model_.logits(model_.decode(batch_, dropout));
  return cross_entropy(logits, batch_.labels, {.label_smoothing = 0.1});
}

void TrainingStep::run() {
  model_.parameters().clear_gradients();
  Tape tape;
  tape.backward(loss(RandomStream(1).named("dropout").at(optimizer_->steps())));
  const double norm = global_gradient_norm(model_.parameters().list());
  optimizer_->step(/*learning_rate=*/1e-4, clip_factor(norm, /*max_norm=*/1.0));
}

double TrainingStep::evaluate() const { return loss({}).item(); }

}  // namespace tapestry::bench
