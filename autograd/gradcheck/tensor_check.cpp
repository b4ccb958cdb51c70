// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/gradcheck/tensor_check.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <set>

#include "autograd/gradcheck/coordinates.h"
#include "autograd/gradcheck/objectives.h"

namespace tapestry::gradcheck_detail {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// A gradient is wrong only if it differs by more than this multiple of the estimated error: the
/// estimate itself is uncertain.
constexpr double error_margin = 10.0;
/// An error is reported as wrong only if it exceeds this multiple of the error of the differences.
constexpr double detectable_factor = 100.0;
/// The rounding errors of a correct gradient may reach this relative error.
constexpr double min_detectable_error = 1e-9;
/// Differences whose error exceeds this multiple of the tolerance do not confirm a gradient.
constexpr double max_confirming_error = 100.0;
/// A derivative can count as zero only if the estimated error of its finite differences is at most
/// this multiple of Thresholds::zero. It is large because rounding errors grow with shorter steps,
/// and the shortest step is 1/2048 of the longest.
constexpr double max_error_of_zero = 1e4;
/// No other steps are tried if the error of an estimate is at most this fraction of the tolerance.
constexpr double good_enough_share = 1e-3;

}  // namespace

double Thresholds::good_enough(double analytic) const {
  return good_enough_share * tolerance * std::max(std::abs(analytic), scale);
}

double detectable_error(double error_of_differences, double tolerance) {
  return std::min(tolerance,
                  std::max(detectable_factor * error_of_differences, min_detectable_error));
}

Comparison compare(double analytic, const Estimate& numeric, const Thresholds& thresholds) {
  using enum GradcheckVerdict;
  const auto verdict = [&](GradcheckVerdict name, double relative_error) {
    return Comparison{analytic, numeric.value, relative_error, name};
  };
  if (!std::isfinite(analytic) || !std::isfinite(numeric.value)) return verdict(wrong, infinity);

  const double difference = std::abs(analytic - numeric.value);
  const bool beyond_estimate = difference > error_margin * numeric.error;
  const double min_magnitude = std::max(std::abs(analytic), thresholds.scale);
  const bool may_be_zero = min_magnitude <= thresholds.zero &&
                           numeric.error <= max_error_of_zero * thresholds.zero && !beyond_estimate;
  const bool is_zero = analytic == 0.0 && numeric.value == 0.0;
  if (may_be_zero) return verdict(is_zero ? agrees : too_small, 0.0);

  const double magnitude = std::max(min_magnitude, std::abs(numeric.value));
  const double error = difference == 0.0 ? 0.0 : difference / magnitude;
  const bool detectable = error > detectable_error(numeric.error / magnitude, thresholds.tolerance);
  const bool confirms = numeric.error <= max_confirming_error * thresholds.tolerance * magnitude;
  if (!detectable && confirms) return verdict(agrees, error);
  if (detectable && beyond_estimate) return verdict(wrong, error);
  return verdict(inconclusive, error);
}

namespace {

RandomStream random_stream(const NamedTensor& named, const GradcheckOptions& options) {
  return RandomStream(options.seed).named(named.name);
}

using Values = std::span<const double>;

double inner_product(Values a, Values b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

/// The check of one objective: the tape's gradient, and sums for cosine and factor.
struct ObjectiveCheck {
  GradcheckRow row;
  Values gradient = {};  ///< empty if all values are zero
  bool coordinate_is_wrong = false;
  double analytic_squares = 0.0, numeric_squares = 0.0, products = 0.0;

  double at(std::size_t i) const { return gradient.empty() ? 0.0 : gradient[i]; }
  double along(std::size_t first, Values direction) const {
    return gradient.empty() ? 0.0
                            : inner_product(gradient.subspan(first, direction.size()), direction);
  }
};

class TensorCheck {
 public:
  /// noise  the noise of each objective
  TensorCheck(const NamedTensor& named, std::span<const Tensor> gradients,
              const Objectives& objectives, const std::vector<double>& noise,
              const GradcheckOptions& options);

  std::vector<GradcheckRow> rows();

 private:
  void check_directions();
  bool enough_directions() const;
  void check_coordinates();
  /// Checks the coordinate for all objectives, unless it has already been checked.
  void check_coordinate(std::size_t i);
  void find_wrong_coordinate(std::size_t k, const std::vector<double>& direction);
  std::vector<Comparison> compare_coordinate(std::size_t i);
  std::vector<Comparison> compare_range(std::size_t first, const std::vector<double>& direction);
  std::vector<Comparison> compare_along(Line& line, const std::vector<double>& analytic,
                                        double length);
  /// Thresholds for objective k along a direction of this length. Errors of coordinates and of
  /// directions are comparable because the scale grows with the length.
  Thresholds thresholds(std::size_t k, double length) const;
  double number_of_elements() const;  ///< 1 for an empty tensor
  void record_coordinate(ObjectiveCheck& check, std::size_t i, const Comparison& comparison);

  Tensor tensor_;
  const Objectives& objectives_;
  const GradcheckOptions& options_;
  RandomStream random_;
  std::vector<ObjectiveCheck> checks_;  ///< one for each objective
  const std::vector<double>& noise_;
  std::set<std::size_t> checked_coordinates_;
};

TensorCheck::TensorCheck(const NamedTensor& named, std::span<const Tensor> gradients,
                         const Objectives& objectives, const std::vector<double>& noise,
                         const GradcheckOptions& options)
    : tensor_(named.tensor),
      objectives_(objectives),
      options_(options),
      random_(random_stream(named, options)),
      noise_(noise) {
  for (std::size_t k = 0; k < objectives.count(); ++k) {
    ObjectiveCheck& check = checks_.emplace_back();
    check.row.output = objectives.name(k);
    check.row.name = named.name;
    check.row.shape = tensor_.shape();
    check.row.has_gradient = gradients[k].defined();
    if (check.row.has_gradient) check.gradient = gradients[k].values<double>();
    check.row.gradient_norm = std::sqrt(inner_product(check.gradient, check.gradient));
    const Thresholds of_coordinate = thresholds(k, 1.0);
    check.row.zero = of_coordinate.scale <= of_coordinate.zero;
    check.row.least_norm = of_coordinate.zero * std::sqrt(number_of_elements());
  }
}

double TensorCheck::number_of_elements() const {
  return static_cast<double>(std::max<std::size_t>(tensor_.size(), 1));
}

Thresholds TensorCheck::thresholds(std::size_t k, double length) const {
  return {.scale = length * checks_[k].row.gradient_norm / std::sqrt(number_of_elements()),
          .zero = noise_[k] / options_.step,
          .tolerance = options_.tolerance};
}

std::vector<Comparison> TensorCheck::compare_along(Line& line, const std::vector<double>& analytic,
                                                   double length) {
  std::vector<double> good_enough;
  for (std::size_t k = 0; k < analytic.size(); ++k) {
    good_enough.push_back(thresholds(k, length).good_enough(analytic[k]));
  }
  // A whole tensor first moves by at most four times the step: longer moves cross more kinks.
  const Steps steps{.first = options_.step * std::min(1.0, 4.0 / length), .max = options_.step};
  const auto numeric = derivatives(line, steps, objectives_, noise_, good_enough);
  std::vector<Comparison> comparisons;
  for (std::size_t k = 0; k < analytic.size(); ++k) {
    comparisons.push_back(compare(analytic[k], numeric[k], thresholds(k, length)));
  }
  return comparisons;
}

std::vector<Comparison> TensorCheck::compare_coordinate(std::size_t i) {
  std::vector<double> analytic;
  for (const ObjectiveCheck& check : checks_) analytic.push_back(check.at(i));
  Line line(tensor_.mutable_values<double>(), i);
  return compare_along(line, analytic, 1.0);
}

std::vector<Comparison> TensorCheck::compare_range(std::size_t first,
                                                   const std::vector<double>& direction) {
  std::vector<double> analytic;
  for (const ObjectiveCheck& check : checks_) {
    analytic.push_back(check.along(first, direction));
  }
  Line line(tensor_.mutable_values<double>(), first, direction);
  return compare_along(line, analytic, std::sqrt(inner_product(direction, direction)));
}

/// The verdict on a row whose comparisons have the verdicts a and b.
GradcheckVerdict more_serious(GradcheckVerdict a, GradcheckVerdict b) {
  using enum GradcheckVerdict;
  for (const GradcheckVerdict verdict : {wrong, inconclusive, too_small}) {
    if (a == verdict || b == verdict) return verdict;
  }
  return agrees;
}

void add_to(GradcheckCount& count, const Comparison& comparison) {
  ++count.checked;
  if (comparison.verdict == GradcheckVerdict::inconclusive) ++count.inconclusive;
}

/// Keeps the comparison with the largest error. Without a coordinate, the comparison is along a
/// direction; a wrong coordinate takes precedence over a wrong direction.
void keep_worst(ObjectiveCheck& check, std::optional<std::size_t> coordinate,
                const Comparison& comparison) {
  if (comparison.verdict == GradcheckVerdict::inconclusive) return;
  if (!coordinate && check.coordinate_is_wrong) return;
  const bool wrong = coordinate && comparison.verdict == GradcheckVerdict::wrong;
  const bool takes_precedence = wrong && !check.coordinate_is_wrong;
  check.coordinate_is_wrong = check.coordinate_is_wrong || wrong;
  GradcheckRow& row = check.row;
  if (comparison.relative_error < row.worst_relative_error && !takes_precedence) return;
  row.worst_relative_error = comparison.relative_error;
  row.worst_coordinate = coordinate;
  row.analytic = comparison.analytic;
  row.numeric = comparison.numeric;
}

void TensorCheck::record_coordinate(ObjectiveCheck& check, std::size_t i,
                                    const Comparison& comparison) {
  add_to(check.row.coordinates, comparison);
  check.row.verdict = more_serious(check.row.verdict, comparison.verdict);
  if (comparison.verdict == GradcheckVerdict::inconclusive) {
    check.row.inconclusive_coordinate = i;
    return;
  }
  keep_worst(check, i, comparison);
  check.analytic_squares += comparison.analytic * comparison.analytic;
  check.numeric_squares += comparison.numeric * comparison.numeric;
  check.products += comparison.analytic * comparison.numeric;
}

void TensorCheck::check_directions() {
  if (tensor_.size() == 0) return;
  for (std::size_t i = 0; i < 2 * options_.directions && !enough_directions(); ++i) {
    const auto direction = signed_weights(tensor_.size(), random_.at(i));
    const std::vector<Comparison> comparisons = compare_range(0, direction);
    for (std::size_t k = 0; k < comparisons.size(); ++k) {
      const Comparison& comparison = comparisons[k];
      GradcheckRow& row = checks_[k].row;
      const bool first_wrong =
          comparison.verdict == GradcheckVerdict::wrong && row.verdict != GradcheckVerdict::wrong;
      add_to(row.directions, comparison);
      // Inconclusive directions are replaced by other directions, see below.
      if (comparison.verdict != GradcheckVerdict::inconclusive) {
        row.verdict = more_serious(row.verdict, comparison.verdict);
      }
      keep_worst(checks_[k], std::nullopt, comparison);
      if (first_wrong) find_wrong_coordinate(k, direction);
    }
  }
  for (ObjectiveCheck& check : checks_) {
    GradcheckRow& row = check.row;
    if (row.directions.conclusive() < options_.directions) {
      row.verdict = more_serious(row.verdict, GradcheckVerdict::inconclusive);
    }
  }
}

bool TensorCheck::enough_directions() const {
  return std::ranges::all_of(checks_, [&](const ObjectiveCheck& check) {
    return check.row.directions.conclusive() >= options_.directions;
  });
}

/// Bisection: if a range of coordinates is wrong, one of its halves is wrong.
void TensorCheck::find_wrong_coordinate(std::size_t k, const std::vector<double>& direction) {
  std::size_t first = 0;
  std::size_t size = direction.size();
  while (size > 1) {
    const std::size_t half = size / 2;
    const auto begin = direction.begin() + static_cast<std::ptrdiff_t>(first);
    const std::vector<double> part(begin, begin + static_cast<std::ptrdiff_t>(half));
    const bool wrong = compare_range(first, part)[k].verdict == GradcheckVerdict::wrong;
    if (!wrong) first += half;
    size = wrong ? half : size - half;
  }
  check_coordinate(first);
}

void TensorCheck::check_coordinate(std::size_t i) {
  if (!checked_coordinates_.insert(i).second) return;
  const std::vector<Comparison> comparisons = compare_coordinate(i);
  for (std::size_t k = 0; k < comparisons.size(); ++k) {
    record_coordinate(checks_[k], i, comparisons[k]);
  }
}

void TensorCheck::check_coordinates() {
  std::vector<Values> gradients;
  for (const ObjectiveCheck& check : checks_) gradients.push_back(check.gradient);
  for (const std::size_t i : coordinates_to_check(tensor_.size(), options_.max_coordinates,
                                                  gradients, random_.named("coordinates"))) {
    check_coordinate(i);
  }
}

/// The final row of a check. Detects NaN even at coordinates that were not moved, and divides by
/// the weight of the output.
GradcheckRow finished(const ObjectiveCheck& check, double unit) {
  GradcheckRow row = check.row;
  if (!std::isfinite(row.gradient_norm)) {
    row.verdict = GradcheckVerdict::wrong;
    row.worst_relative_error = infinity;
  }
  const bool nothing_checked = row.coordinates.conclusive() + row.directions.conclusive() == 0;
  if (nothing_checked && row.shape.size() > 0) {
    row.verdict = more_serious(row.verdict, GradcheckVerdict::inconclusive);
    row.worst_relative_error = infinity;
  }
  if (!row.zero) {
    row.cosine = check.products / std::sqrt(check.analytic_squares * check.numeric_squares);
    row.factor = check.products / check.numeric_squares;
  }
  const double magnitude = std::abs(unit);
  row.gradient_norm /= magnitude;
  row.least_norm /= magnitude;
  row.analytic /= unit;
  row.numeric /= unit;
  return row;
}

std::vector<GradcheckRow> TensorCheck::rows() {
  check_directions();
  check_coordinates();
  std::vector<GradcheckRow> rows;
  for (std::size_t k = 0; k < checks_.size(); ++k) {
    rows.push_back(finished(checks_[k], objectives_.unit(k)));
  }
  return rows;
}

double max_magnitude(std::span<const NamedTensor> tensors) {
  double largest = 0.0;
  for (const NamedTensor& named : tensors) {
    for (const double value : named.tensor.values<double>()) {
      largest = std::max(largest, std::abs(value));
    }
  }
  return largest;
}

/// The noise of each objective: the maximum of its noise along a random direction of each tensor,
/// because moving a tensor that hardly affects an objective shows too few of its rounding errors.
/// An objective that no tensor changes, such as a loss that is rounded to 0, may have lost changes
/// as large as the rounding of the tensors' values.
std::vector<double> max_noise(const Objectives& objectives, std::span<const NamedTensor> tensors,
                              const GradcheckOptions& options) {
  std::vector<std::optional<double>> measured(objectives.count());
  for (const NamedTensor& named : tensors) {
    Tensor tensor = named.tensor;
    Line line(tensor.mutable_values<double>(), 0,
              signed_weights(tensor.size(), random_stream(named, options).at(0)));
    const auto noise = measured_noise(line, options.step, objectives);
    for (std::size_t k = 0; k < noise.size(); ++k) measured[k] = std::max(measured[k], noise[k]);
  }
  const double rounding_of_values = std::numeric_limits<double>::epsilon() * max_magnitude(tensors);
  std::vector<double> largest;
  for (std::size_t k = 0; k < measured.size(); ++k) {
    largest.push_back(measured[k].value_or(std::max(objectives.rounding(k), rounding_of_values)));
  }
  return largest;
}

}  // namespace

std::vector<GradcheckRow> check(const Objectives& objectives, std::span<const NamedTensor> tensors,
                                const GradcheckOptions& options) {
  std::vector<std::vector<Tensor>> gradients;  // [objective][tensor]
  for (std::size_t k = 0; k < objectives.count(); ++k) {
    gradients.push_back(objectives.gradients(k, tensors));
  }
  const std::vector<double> noise = max_noise(objectives, tensors, options);
  std::vector<GradcheckRow> rows(objectives.count() * tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    std::vector<Tensor> tensor_gradients;
    for (const auto& all : gradients) tensor_gradients.push_back(all[i]);
    std::vector<GradcheckRow> tensor_rows =
        TensorCheck(tensors[i], tensor_gradients, objectives, noise, options).rows();
    for (std::size_t k = 0; k < tensor_rows.size(); ++k) {
      rows[k * tensors.size() + i] = std::move(tensor_rows[k]);
    }
  }
  return rows;
}

}  // namespace tapestry::gradcheck_detail
