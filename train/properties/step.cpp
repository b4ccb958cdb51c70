#include "train/properties/step.h"

#include <fmt/format.h>

#include <algorithm>

#include "autograd/tape.h"
#include "train/batch_tensors.h"

namespace tapestry {
namespace {

Tensor forward(const ExaminedModel& model, const Batch& batch, const RandomStream& random) {
  const NetworkInput input = network_input(batch, model.dtype());
  return model.logits(model.embed(input, random), input, random);
}

Tensor loss_of_logits(const ExaminedModel& model, const Tensor& logits, const Batch& batch,
                      const StepOptions& options) {
  return model.loss(logits, label_ids(batch),
                    {.ignored_id = no_label,
                     .label_smoothing = options.label_smoothing,
                     .normalizer = options.normalizer});
}

std::optional<std::string> first_difference(const std::string& what, const std::vector<double>& a,
                                            const std::vector<double>& b) {
  if (a.size() != b.size()) {
    return fmt::format("{}: {} values and then {}", what, a.size(), b.size());
  }
  const auto [x, y] = std::ranges::mismatch(a, b);
  if (x == a.end()) return std::nullopt;
  return fmt::format("{}, value {}: {:.17g} and then {:.17g}", what, x - a.begin() + 1, *x, *y);
}

}  // namespace

std::vector<double> values_of(const Tensor& x) {
  return dispatch(x.dtype(), [&]<class T>() {
    const auto values = x.values<T>();
    return std::vector<double>(values.begin(), values.end());
  });
}

Tensor logits_of(const ExaminedModel& model, const Batch& batch) {
  return forward(model, batch, RandomStream());
}

double loss_of(const ExaminedModel& model, const Batch& batch, const StepOptions& options) {
  return loss_of_logits(model, forward(model, batch, options.random), batch, options).item();
}

Step run_step(ExaminedModel& model, const Batch& batch, const StepOptions& options) {
  Tape tape;
  const Tensor logits = forward(model, batch, options.random);
  const Tensor loss = loss_of_logits(model, logits, batch, options);
  Step step{.loss = loss.item(), .logits = values_of(logits), .gradients = {}};
  tape.backward(loss);
  for (const NamedTensor& parameter : model.parameters) {
    const Tensor gradient = parameter.tensor.gradient();
    step.gradients.push_back(gradient ? values_of(gradient) : std::vector<double>());
  }
  return step;
}

StepOptions training_options(const Subject& subject) {
  return {.random = RandomStream(subject.seed).named("dropout").at(1).at(0),
          .label_smoothing = subject.label_smoothing};
}

std::optional<std::string> first_difference(const ExaminedModel& model, const Step& a,
                                            const Step& b) {
  if (auto found = first_difference("loss", {a.loss}, {b.loss})) return found;
  if (auto found = first_difference("logits", a.logits, b.logits)) return found;
  for (std::size_t i = 0; i < model.parameters.size(); ++i) {
    const std::string what = "gradient of " + model.parameters[i].name;
    if (auto found = first_difference(what, a.gradients[i], b.gradients[i])) return found;
  }
  return std::nullopt;
}

}  // namespace tapestry
