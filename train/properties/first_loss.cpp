#include <fmt/format.h>

#include <cmath>

#include "train/properties/properties.h"
#include "train/properties/step.h"

namespace tapestry {
namespace {

/// Nats. The logits of initial weights have a variance of up to 2 where width exceeds vocabulary,
/// and of 1 with tied embeddings; half of it adds to the loss.
constexpr double allowed = 1.5;

}  // namespace

PropertyResult first_loss(const Subject& subject) {
  const ExaminedModel model = subject.copy(DType::float64);
  const double loss = loss_of(model, subject.batch, {.label_smoothing = subject.label_smoothing});
  if (subject.trained) return not_asked(fmt::format("loss {:.3f} of a trained model", loss));
  const double even = std::log(static_cast<double>(subject.vocabulary));
  const std::string text = fmt::format("loss {:.3f}, ln({}) is {:.3f}, allowed {} more or less",
                                       loss, subject.vocabulary, even, allowed);
  return std::abs(loss - even) <= allowed ? holds(text) : fails(text);
}

}  // namespace tapestry
