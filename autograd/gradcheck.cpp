#include "autograd/gradcheck.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "autograd/error.h"
#include "autograd/random.h"
#include "autograd/tape.h"

namespace tapestry {
namespace {

void require_checkable(const NamedTensor& named) {
  if (named.tensor.dtype() != DType::float64) {
    throw DTypeError(
        fmt::format("gradcheck: `{}` is {}, expected float64: differences of float32 "
                    "values are too coarse",
                    named.name, name(named.tensor.dtype())));
  }
  if (!named.tensor.requires_gradient()) {
    throw ValueError(fmt::format("gradcheck: `{}` requires no gradient", named.name));
  }
}

/// Weights of either sign, none near zero.
Tensor output_weights(const Shape& shape, std::uint64_t seed) {
  const RandomStream random = RandomStream(seed).named("gradcheck output weights");
  Tensor weights = Tensor::empty(shape, DType::float64);
  std::uint64_t counter = 0;
  for (double& w : weights.mutable_values<double>()) {
    const double u = 2.0 * random.uniform(counter++) - 1.0;
    w = std::copysign(0.5 + std::abs(u), u);
  }
  return weights;
}

double inner_product(const Tensor& a, const Tensor& b) {
  const auto x = a.values<double>();
  const auto y = b.values<double>();
  return std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
}

/// What rounding may leave in <w, y>: every term is off by its own size times epsilon, or by a few,
/// since y has been computed.
double rounding_of(const Tensor& y, const Tensor& weights) {
  double terms = 0.0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    terms += std::abs(y.values<double>()[i] * weights.values<double>()[i]);
  }
  return std::numeric_limits<double>::epsilon() * terms;
}

/// Every coordinate of a small tensor, different random ones of a large one.
std::vector<std::size_t> coordinates_to_check(std::size_t size, const NamedTensor& named,
                                              const GradcheckOptions& options) {
  std::vector<std::size_t> all(size);
  std::iota(all.begin(), all.end(), std::size_t{0});
  if (size <= options.max_coordinates) return all;
  const RandomStream random = RandomStream(options.seed).named(named.name);
  for (std::size_t i = 0; i < options.max_coordinates; ++i) {
    const double u = random.uniform(i);
    std::swap(all[i], all[i + static_cast<std::size_t>(u * static_cast<double>(size - i))]);
  }
  all.resize(options.max_coordinates);
  return all;
}

/// A derivative and how far off it may be.
struct Estimate {
  double value;
  double error;
};

/// The scalar that is differentiated, and the size of what rounding may have left in it.
struct Scalar {
  std::function<double()> value;
  double rounding;
};

/// Derivative of f at `x` by central differences at h, h/2, h/4, h/8, extrapolated to 0. The error
/// is the larger of the distances to the two estimates that are one order lower, from shorter and
/// from longer steps, plus what rounding of f leaves in the quotient.
Estimate richardson_derivative(double& x, double step, const Scalar& f) {
  constexpr std::size_t levels = 4;
  const double x0 = x;
  std::array<double, levels> d{};
  for (std::size_t level = 0; level < levels; ++level) {
    const double h = std::ldexp(step, -static_cast<int>(level));
    x = x0 + h;
    const double above = f.value();
    x = x0 - h;
    const double below = f.value();
    d[level] = (above - below) / (2.0 * h);
  }
  x = x0;
  double from_shorter = 0.0, from_longer = 0.0;
  for (std::size_t order = 1; order < levels; ++order) {
    from_shorter = d[levels - 1];
    from_longer = d[levels - 2];
    const double factor = std::ldexp(1.0, 2 * static_cast<int>(order));
    for (std::size_t level = levels - 1; level >= order; --level) {
      d[level] += (d[level] - d[level - 1]) / (factor - 1.0);
    }
  }
  const double value = d[levels - 1];
  const double smallest_step = std::ldexp(step, 1 - static_cast<int>(levels));
  return {.value = value,
          .error = std::max(std::abs(value - from_shorter), std::abs(value - from_longer)) +
                   f.rounding / smallest_step};
}

/// The best estimate among rising demands: shorter and shorter steps until it is good enough.
Estimate differentiate(double& x, double step, double good_enough, const Scalar& f) {
  Estimate best = richardson_derivative(x, step, f);
  for (int attempt = 1; attempt <= 2 && !(best.error <= good_enough); ++attempt) {
    const Estimate next = richardson_derivative(x, std::ldexp(step, -4 * attempt), f);
    if (!(best.error <= next.error)) best = next;
  }
  return best;
}

/// What the comparison of one coordinate goes by.
struct Yardstick {
  double scale;      ///< the least magnitude that errors are measured against
  double zero;       ///< an analytic gradient up to this size is rounding of zero
  double tolerance;  ///< largest relative error of a right gradient
};

/// The comparison of one coordinate.
struct Comparison {
  double analytic, numeric, relative_error;
  GradcheckVerdict verdict;
};

Comparison compare(double analytic, const Estimate& numeric, const Yardstick& by) {
  if (!std::isfinite(analytic) || !std::isfinite(numeric.value)) {
    return {analytic, numeric.value, std::numeric_limits<double>::infinity(),
            GradcheckVerdict::wrong};
  }
  const double difference = std::abs(analytic - numeric.value);
  const bool told = difference > 10.0 * numeric.error;
  const bool both_zero = std::max(std::abs(analytic), by.scale) <= by.zero && !told;
  const double magnitude = std::max({std::abs(analytic), std::abs(numeric.value), by.scale});
  const double error = difference == 0.0 || both_zero ? 0.0 : difference / magnitude;
  if (error <= by.tolerance) return {analytic, numeric.value, error, GradcheckVerdict::agrees};
  return {analytic, numeric.value, error,
          told ? GradcheckVerdict::wrong : GradcheckVerdict::cannot_tell};
}

void note(GradcheckRow& row, std::size_t coordinate, const Comparison& c) {
  ++row.coordinates_checked;
  if (c.verdict == GradcheckVerdict::cannot_tell) {
    ++row.coordinates_untold;
    return;
  }
  if (c.verdict == GradcheckVerdict::wrong) row.verdict = GradcheckVerdict::wrong;
  if (c.relative_error < row.worst_relative_error) return;
  row.worst_relative_error = c.relative_error;
  row.worst_coordinate = coordinate;
  row.analytic = c.analytic;
  row.numeric = c.numeric;
}

GradcheckRow check_tensor(const NamedTensor& named, const Tensor& gradient,
                          const Scalar& weighted_output, const GradcheckOptions& options) {
  Tensor tensor = named.tensor;
  GradcheckRow row{.name = named.name, .shape = tensor.shape()};
  row.reached = static_cast<bool>(gradient);
  row.gradient_norm = row.reached ? std::sqrt(inner_product(gradient, gradient)) : 0.0;
  const auto size = static_cast<double>(std::max<std::size_t>(tensor.size(), 1));
  const Yardstick by{.scale = row.gradient_norm / std::sqrt(size),
                     .zero = weighted_output.rounding / options.step,
                     .tolerance = options.tolerance};
  const auto values = tensor.mutable_values<double>();
  for (const std::size_t i : coordinates_to_check(tensor.size(), named, options)) {
    const double analytic = row.reached ? gradient.values<double>()[i] : 0.0;
    const double good_enough = 0.1 * options.tolerance * std::max(std::abs(analytic), by.scale);
    const Estimate numeric = differentiate(values[i], options.step, good_enough, weighted_output);
    note(row, i, compare(analytic, numeric, by));
  }
  if (row.verdict != GradcheckVerdict::wrong &&
      2 * row.coordinates_untold > row.coordinates_checked) {
    row.verdict = GradcheckVerdict::cannot_tell;
  }
  if (!std::isfinite(row.gradient_norm)) {  // perhaps at a coordinate that is not checked
    row.verdict = GradcheckVerdict::wrong;
    row.worst_relative_error = std::numeric_limits<double>::infinity();
  }
  return row;
}

}  // namespace

const char* name(GradcheckVerdict verdict) {
  switch (verdict) {
    case GradcheckVerdict::agrees:
      return "agrees";
    case GradcheckVerdict::wrong:
      return "wrong";
    case GradcheckVerdict::cannot_tell:
      return "cannot tell";
  }
  return "";
}

std::size_t GradcheckReport::count(GradcheckVerdict verdict) const {
  return static_cast<std::size_t>(std::count_if(
      rows.begin(), rows.end(), [&](const GradcheckRow& row) { return row.verdict == verdict; }));
}

double GradcheckReport::worst_relative_error() const {
  double worst = 0.0;
  for (const GradcheckRow& row : rows) worst = std::max(worst, row.worst_relative_error);
  return worst;
}

GradcheckReport gradcheck(const std::function<Tensor()>& function,
                          std::span<const NamedTensor> tensors, const GradcheckOptions& options) {
  std::vector<Tensor> leaves;
  for (const NamedTensor& named : tensors) {
    require_checkable(named);
    leaves.push_back(named.tensor);
    leaves.back().clear_gradient();
  }

  Tensor weights;
  Scalar weighted_output;
  {
    Tape tape;
    const Tensor y = function();
    weights = output_weights(y.shape(), options.seed);
    weighted_output.rounding = rounding_of(y, weights);
    if (y.requires_gradient()) tape.backward(y, weights);
  }
  weighted_output.value = [&] {
    const TapePause nothing_is_recorded;
    return inner_product(function(), weights);
  };

  GradcheckReport report;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Tensor gradient = leaves[i].gradient();
    report.rows.push_back(check_tensor(tensors[i], gradient, weighted_output, options));
  }
  for (Tensor& leaf : leaves) leaf.clear_gradient();
  return report;
}

}  // namespace tapestry
