#include "train/checks/one_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/tape.h"
#include "train/inference/batch_tensors.h"

namespace tapestry {
namespace {

/// Relative to the norm of the largest gradient.
constexpr double smallest_denominator = 1e-3;

Tensor features(const CheckedModel& model, const Batch& batch, const Mode& mode) {
  const NetworkInput input = network_input(batch, model.dtype());
  return model.features(model.embed(input, mode), input, mode);
}

Tensor training_loss(const CheckedModel& model, const Tensor& features, const Batch& batch,
                     const StepOptions& options) {
  return model.loss(features, label_ids(batch),
                    {.ignored_id = no_label,
                     .label_smoothing = options.label_smoothing,
                     .normalizer = options.normalizer});
}

/// The logits, which the loss may not store, without a record of them on the tape.
std::vector<double> unrecorded_logits(const CheckedModel& model, const Tensor& features) {
  const NoGrad no_grad;
  return to_doubles(model.logits(features));
}

std::optional<std::string> first_difference(const std::string& what, const std::vector<double>& a,
                                            const std::vector<double>& b) {
  if (a.size() != b.size()) {
    return fmt::format("{}: {} values, then {}", what, a.size(), b.size());
  }
  const auto [x, y] = std::ranges::mismatch(a, b);
  if (x == a.end()) return std::nullopt;
  return fmt::format("{}, value {}: {:.17g}, then {:.17g}", what, x - a.begin() + 1, *x, *y);
}

double norm(const std::vector<double>& values) {
  double sum = 0.0;
  for (const double x : values) sum += x * x;
  return std::sqrt(sum);
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::isnan(sum) ? std::numeric_limits<double>::infinity() : std::sqrt(sum);
}

}  // namespace

std::vector<double> to_doubles(const Tensor& x) {
  return dispatch(x.dtype(), [&]<class T>() {
    const auto values = x.values<T>();
    return std::vector<double>(values.begin(), values.end());
  });
}

Tensor compute_logits(const CheckedModel& model, const Batch& batch) {
  return model.logits(features(model, batch, Mode::inference()));
}

double compute_loss(const CheckedModel& model, const Batch& batch, const StepOptions& options) {
  return training_loss(model, features(model, batch, options.mode), batch, options).item();
}

StepValues run_step(CheckedModel& model, const Batch& batch, const StepOptions& options) {
  Tape tape;
  const Tensor x = features(model, batch, options.mode);
  const Tensor loss = training_loss(model, x, batch, options);
  StepValues step{.loss = loss.item(), .logits = unrecorded_logits(model, x), .gradients = {}};
  tape.backward(loss);
  for (const NamedTensor& parameter : model.parameters) {
    const Tensor gradient = parameter.tensor.gradient();
    step.gradients.push_back(gradient.defined() ? to_doubles(gradient) : std::vector<double>());
  }
  return step;
}

StepOptions training_options(const CheckContext& context) {
  return {.mode = Mode::training(RandomStream(context.seed).named("dropout").at(1).at(0))
                      .with_deferred_averages(),
          .label_smoothing = context.label_smoothing};
}

std::optional<std::string> first_difference(const CheckedModel& model, const StepValues& a,
                                            const StepValues& b) {
  if (auto found = first_difference("loss", {a.loss}, {b.loss})) return found;
  if (auto found = first_difference("logits", a.logits, b.logits)) return found;
  for (std::size_t i = 0; i < model.parameters.size(); ++i) {
    const std::string what = "gradient of " + model.parameters[i].name;
    if (auto found = first_difference(what, a.gradients[i], b.gradients[i])) return found;
  }
  return std::nullopt;
}

GradientDistance largest_distance(const CheckedModel& model, const StepValues& a,
                                  const StepValues& b) {
  double largest = 0.0;
  for (const auto& gradient : b.gradients) largest = std::max(largest, norm(gradient));
  GradientDistance worst;
  for (std::size_t i = 0; i < model.parameters.size(); ++i) {
    const double apart = distance(a.gradients[i], b.gradients[i]);
    if (apart == 0.0) continue;
    const double relative = apart / std::max(norm(b.gradients[i]), smallest_denominator * largest);
    if (!(relative <= worst.relative)) worst = {relative, model.parameters[i].name};
  }
  return worst;
}

}  // namespace tapestry
