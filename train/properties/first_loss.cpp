#include <fmt/format.h>

#include <cmath>

#include "train/properties/properties.h"
#include "train/properties/step.h"

namespace tapestry {
namespace {

/// Nats. The logits of initial weights have a variance of up to 2 where width exceeds vocabulary,
/// and of 1 with tied embeddings; half of it adds to the loss. A tied model starts out favouring
/// the token that it has just read: its vector times itself gives a logit of up to sqrt(d_model).
double allowed(const Subject& subject) {
  if (subject.tied_width == 0) return 1.5;
  const double favoured = std::exp(std::sqrt(static_cast<double>(subject.tied_width)));
  return 1.5 + std::log1p(favoured / static_cast<double>(subject.vocabulary));
}

}  // namespace

PropertyResult first_loss(const Subject& subject) {
  const ExaminedModel model = subject.copy(DType::float64);
  const double loss = loss_of(model, subject.batch, {.label_smoothing = subject.label_smoothing});
  if (subject.trained) return not_asked(fmt::format("loss {:.3f} of a trained model", loss));
  if (subject.has_averages) {
    return not_asked(fmt::format("loss {:.3f} by running averages that have seen nothing", loss));
  }
  const double even = std::log(static_cast<double>(subject.vocabulary));
  const std::string text = fmt::format("loss {:.3f}, ln({}) is {:.3f}, allowed {:.3g} more or less",
                                       loss, subject.vocabulary, even, allowed(subject));
  return std::abs(loss - even) <= allowed(subject) ? holds(text) : fails(text);
}

}  // namespace tapestry
