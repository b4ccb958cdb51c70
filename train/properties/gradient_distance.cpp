#include "train/properties/gradient_distance.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tapestry {
namespace {

constexpr double floor_of_largest = 1e-3;

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

GradientDistance largest_distance(const ExaminedModel& model, const Step& a, const Step& b) {
  double largest = 0.0;
  for (const auto& gradient : b.gradients) largest = std::max(largest, norm(gradient));
  GradientDistance worst;
  for (std::size_t i = 0; i < model.parameters.size(); ++i) {
    const double apart = distance(a.gradients[i], b.gradients[i]);
    if (apart == 0.0) continue;
    const double relative = apart / std::max(norm(b.gradients[i]), floor_of_largest * largest);
    if (!(relative <= worst.relative)) worst = {relative, model.parameters[i].name};
  }
  return worst;
}

}  // namespace tapestry
