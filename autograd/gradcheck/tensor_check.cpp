#include "autograd/gradcheck/tensor_check.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <set>

#include "autograd/gradcheck/objectives.h"

namespace tapestry::gradcheck_detail {

double Thresholds::good_enough(double analytic) const {
  return 1e-3 * tolerance * std::max(std::abs(analytic), scale);
}

double detectable_error(double error_of_differences, double tolerance) {
  return std::min(tolerance, std::max(100.0 * error_of_differences, 1e-9));
}

Comparison compare(double analytic, const Estimate& numeric, const Thresholds& by) {
  if (!std::isfinite(analytic) || !std::isfinite(numeric.value)) {
    return {analytic, numeric.value, std::numeric_limits<double>::infinity(),
            GradcheckVerdict::wrong};
  }
  const double difference = std::abs(analytic - numeric.value);
  const double magnitude = std::max({std::abs(analytic), std::abs(numeric.value), by.scale});
  const bool beyond_estimate = difference > 10.0 * numeric.error;
  // Rounding errors grow with shorter steps, of which the shortest is 1/2048 of the longest.
  const bool zero_but_for_rounding = std::max(std::abs(analytic), by.scale) <= by.zero &&
                                     numeric.error <= 1e4 * by.zero && !beyond_estimate;
  if (zero_but_for_rounding) {
    const bool zero = analytic == 0.0 && numeric.value == 0.0;
    return {analytic, numeric.value, 0.0,
            zero ? GradcheckVerdict::agrees : GradcheckVerdict::too_small};
  }
  const double error = difference == 0.0 ? 0.0 : difference / magnitude;
  const double detectable = detectable_error(numeric.error / magnitude, by.tolerance);
  const bool sharp = numeric.error <= 100.0 * by.tolerance * magnitude;
  if (error <= detectable && sharp) {
    return {analytic, numeric.value, error, GradcheckVerdict::agrees};
  }
  return {analytic, numeric.value, error,
          error > detectable && beyond_estimate ? GradcheckVerdict::wrong
                                                : GradcheckVerdict::inconclusive};
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
struct Examined {
  GradcheckRow row;
  Values gradient = {};  ///< empty: all zero
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
  /// noise  of each objective
  TensorCheck(const NamedTensor& named, std::span<const Tensor> gradients,
              const Objectives& objectives, const std::vector<double>& noise,
              const GradcheckOptions& options);

  std::vector<GradcheckRow> rows();

 private:
  void check_directions();
  bool enough_directions() const;
  void check_coordinates();
  void find_wrong_coordinate(std::size_t k, const std::vector<double>& direction);
  std::vector<Comparison> compare_coordinate(std::size_t i);
  std::vector<Comparison> compare_range(std::size_t first, const std::vector<double>& direction);
  std::vector<Comparison> compare_along(Line& line, const std::vector<double>& analytic,
                                        double length);
  Thresholds thresholds(std::size_t k, double length) const;
  void note_coordinate(Examined& of, std::size_t i, const Comparison& c);

  Tensor tensor_;
  const Objectives& objectives_;
  const GradcheckOptions& options_;
  RandomStream random_;
  std::vector<Examined> examined_;
  const std::vector<double>& noise_;
  std::set<std::size_t> checked_;  ///< coordinates
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
    Examined of{.row = {.output = objectives.name(k),
                        .name = named.name,
                        .shape = tensor_.shape(),
                        .has_gradient = gradients[k].defined()}};
    if (of.row.has_gradient) of.gradient = gradients[k].values<double>();
    of.row.gradient_norm = std::sqrt(inner_product(of.gradient, of.gradient));
    examined_.push_back(std::move(of));
    const Thresholds by = thresholds(k, 1.0);
    examined_.back().row.zero = by.scale <= by.zero;
    examined_.back().row.least_norm =
        by.zero * std::sqrt(static_cast<double>(std::max<std::size_t>(tensor_.size(), 1)));
  }
}

/// `length` of the direction, so that errors of coordinates and directions are comparable.
Thresholds TensorCheck::thresholds(std::size_t k, double length) const {
  const auto size = static_cast<double>(std::max<std::size_t>(tensor_.size(), 1));
  return {.scale = length * examined_[k].row.gradient_norm / std::sqrt(size),
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
  const Steps steps{.first = options_.step * std::min(1.0, 4.0 / length), .longest = options_.step};
  const auto numeric = derivatives(line, steps, objectives_, noise_, good_enough);
  std::vector<Comparison> comparisons;
  for (std::size_t k = 0; k < analytic.size(); ++k) {
    comparisons.push_back(compare(analytic[k], numeric[k], thresholds(k, length)));
  }
  return comparisons;
}

std::vector<Comparison> TensorCheck::compare_coordinate(std::size_t i) {
  std::vector<double> analytic;
  for (const Examined& of : examined_) analytic.push_back(of.at(i));
  Line line(tensor_.mutable_values<double>(), i);
  return compare_along(line, analytic, 1.0);
}

std::vector<Comparison> TensorCheck::compare_range(std::size_t first,
                                                   const std::vector<double>& direction) {
  std::vector<double> analytic;
  for (const Examined& of : examined_) analytic.push_back(of.along(first, direction));
  Line line(tensor_.mutable_values<double>(), first, direction);
  return compare_along(line, analytic, std::sqrt(inner_product(direction, direction)));
}

/// The verdict on a row with comparisons of both verdicts.
GradcheckVerdict more_serious(GradcheckVerdict a, GradcheckVerdict b) {
  using enum GradcheckVerdict;
  for (const GradcheckVerdict verdict : {wrong, inconclusive, too_small}) {
    if (a == verdict || b == verdict) return verdict;
  }
  return agrees;
}

void count(GradcheckCount& of_kind, const Comparison& c) {
  ++of_kind.checked;
  if (c.verdict == GradcheckVerdict::inconclusive) ++of_kind.inconclusive;
}

/// Keeps the comparison with the largest error. Without a coordinate it is the error of a
/// direction; a wrong coordinate takes precedence over a wrong direction.
void take_worst(Examined& of, std::optional<std::size_t> coordinate, const Comparison& c) {
  if (c.verdict == GradcheckVerdict::inconclusive) return;
  GradcheckRow& row = of.row;
  if (!coordinate && of.coordinate_is_wrong) return;
  const bool wrong = coordinate && c.verdict == GradcheckVerdict::wrong;
  const bool takes_precedence = wrong && !of.coordinate_is_wrong;
  of.coordinate_is_wrong = of.coordinate_is_wrong || wrong;
  if (c.relative_error < row.worst_relative_error && !takes_precedence) return;
  row.worst_relative_error = c.relative_error;
  row.worst_coordinate = coordinate;
  row.analytic = c.analytic;
  row.numeric = c.numeric;
}

void TensorCheck::note_coordinate(Examined& of, std::size_t i, const Comparison& c) {
  count(of.row.coordinates, c);
  of.row.verdict = more_serious(of.row.verdict, c.verdict);
  if (c.verdict == GradcheckVerdict::inconclusive) {
    of.row.inconclusive_coordinate = i;
    return;
  }
  take_worst(of, i, c);
  of.analytic_squares += c.analytic * c.analytic;
  of.numeric_squares += c.numeric * c.numeric;
  of.products += c.analytic * c.numeric;
}

void TensorCheck::check_directions() {
  if (tensor_.size() == 0) return;
  for (std::size_t d = 0; d < 2 * options_.directions && !enough_directions(); ++d) {
    const auto direction = signed_weights(tensor_.size(), random_.at(d));
    const std::vector<Comparison> found = compare_range(0, direction);
    for (std::size_t k = 0; k < found.size(); ++k) {
      GradcheckRow& row = examined_[k].row;
      const bool first_wrong =
          found[k].verdict == GradcheckVerdict::wrong && row.verdict != GradcheckVerdict::wrong;
      count(row.directions, found[k]);
      // Inconclusive directions are replaced by others, see below.
      if (found[k].verdict != GradcheckVerdict::inconclusive) {
        row.verdict = more_serious(row.verdict, found[k].verdict);
      }
      take_worst(examined_[k], std::nullopt, found[k]);
      if (first_wrong) find_wrong_coordinate(k, direction);
    }
  }
  for (Examined& of : examined_) {
    GradcheckRow& row = of.row;
    if (row.directions.conclusive() < options_.directions) {
      row.verdict = more_serious(row.verdict, GradcheckVerdict::inconclusive);
    }
  }
}

bool TensorCheck::enough_directions() const {
  return std::ranges::all_of(examined_, [&](const Examined& of) {
    return of.row.directions.conclusive() >= options_.directions;
  });
}

/// Bisection: if the whole is wrong, one of its halves is.
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
  if (!checked_.insert(first).second) return;
  const std::vector<Comparison> found = compare_coordinate(first);
  for (std::size_t of = 0; of < found.size(); ++of)
    note_coordinate(examined_[of], first, found[of]);
}

void TensorCheck::check_coordinates() {
  std::vector<Values> gradients;
  for (const Examined& of : examined_) gradients.push_back(of.gradient);
  for (const std::size_t i : coordinates_to_check(tensor_.size(), options_.max_coordinates,
                                                  gradients, random_.named("coordinates"))) {
    if (!checked_.insert(i).second) continue;
    const std::vector<Comparison> found = compare_coordinate(i);
    for (std::size_t k = 0; k < found.size(); ++k) note_coordinate(examined_[k], i, found[k]);
  }
}

/// Includes NaN at coordinates that were not moved; divides out the weight of the output.
GradcheckRow finished(const Examined& of, double unit) {
  GradcheckRow row = of.row;
  if (!std::isfinite(row.gradient_norm)) {
    row.verdict = GradcheckVerdict::wrong;
    row.worst_relative_error = std::numeric_limits<double>::infinity();
  }
  const bool nothing_told = row.coordinates.conclusive() + row.directions.conclusive() == 0;
  if (nothing_told && row.shape.size() > 0) {
    row.verdict = more_serious(row.verdict, GradcheckVerdict::inconclusive);
    row.worst_relative_error = std::numeric_limits<double>::infinity();
  }
  if (!row.zero) {
    row.cosine = of.products / std::sqrt(of.analytic_squares * of.numeric_squares);
    row.factor = of.products / of.numeric_squares;
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
  for (std::size_t k = 0; k < examined_.size(); ++k) {
    rows.push_back(finished(examined_[k], objectives_.unit(k)));
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

/// The noise of each objective: the largest of those where one of the tensors moves. A tensor that
/// hardly changes an objective meets too few of its rounding errors. An objective that no tensor
/// changes, such as a loss that is rounded to 0, may have lost a change of the size of the rounding
/// of their values.
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
    std::vector<Tensor> of_tensor;
    for (const auto& of_objective : gradients) of_tensor.push_back(of_objective[i]);
    std::vector<GradcheckRow> found =
        TensorCheck(tensors[i], of_tensor, objectives, noise, options).rows();
    for (std::size_t k = 0; k < found.size(); ++k) {
      rows[k * tensors.size() + i] = std::move(found[k]);
    }
  }
  return rows;
}

}  // namespace tapestry::gradcheck_detail
