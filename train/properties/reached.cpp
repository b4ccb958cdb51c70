#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "train/properties/properties.h"
#include "train/properties/step.h"

namespace tapestry {
namespace {

/// Gradients this much smaller than the largest are what rounding leaves of 0.
constexpr double rounding = 1e-13;

double largest(const std::vector<double>& gradient) {
  double most = 0.0;
  for (const double g : gradient) most = std::max(most, std::abs(g));
  return most;
}

/// All scores of a softmax move alike with this bias, which changes nothing, where scores are dot
/// products and keys are not turned.
bool may_be_zero(const std::string& name) { return name.ends_with("k_proj.bias"); }

}  // namespace

PropertyResult reached(const Subject& subject) {
  ExaminedModel model = subject.copy(DType::float64);
  const Step step = run_step(model, subject.batch, {.label_smoothing = subject.label_smoothing});
  double most = 0.0;
  for (const auto& gradient : step.gradients) most = std::max(most, largest(gradient));

  std::size_t zero_by_nature = 0;
  for (std::size_t i = 0; i < model.parameters.size(); ++i) {
    const std::string& name = model.parameters[i].name;
    if (step.gradients[i].empty()) return fails(fmt::format("{} has no gradient", name));
    const bool is_zero = !(largest(step.gradients[i]) > rounding * most);
    if (is_zero && may_be_zero(name)) {
      ++zero_by_nature;
    } else if (is_zero) {
      return fails(fmt::format("the gradient of {} is at most {:.1e}, the largest of all is {:.1e}",
                               name, largest(step.gradients[i]), most));
    }
  }
  return holds(fmt::format("{} of {} tensors have a gradient; that of {} key biases is 0 by nature",
                           model.parameters.size() - zero_by_nature, model.parameters.size(),
                           zero_by_nature));
}

}  // namespace tapestry
