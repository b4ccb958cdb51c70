#include "autograd/gradcheck/explanation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tapestry::gradcheck_detail {
namespace {

bool close(double a, double b) { return std::abs(a - b) <= 1e-6 * std::abs(b); }

/// A factor that has a likely cause, or nothing.
std::string likely_cause(double factor, const Shape& shape) {
  if (close(factor, -1.0)) return "its sign is wrong";
  for (std::size_t axis = 0; axis < shape.rank(); ++axis) {
    const auto n = static_cast<double>(shape[axis]);
    if (n < 2) continue;
    if (close(factor, n))
      return fmt::format("axis {} has length {}: a division by it is missing", axis, n);
    if (close(factor, 1.0 / n)) {
      return fmt::format("axis {} has length {}: it is divided by that once too often", axis, n);
    }
  }
  const auto size = static_cast<double>(shape.size());
  if (size > 1 && close(factor, size))
    return fmt::format("a division by the size {} is missing", size);
  if (size > 1 && close(factor, 1.0 / size)) {
    return fmt::format("it is divided by the size {} once too often", size);
  }
  if (close(factor, 2.0)) return "a contribution may be counted twice";
  if (close(factor, 0.5))
    return "a factor 2 (of a square?) may be missing, or one of two contributions";
  return "a factor is missing or too much";
}

std::string kind_of_error(const GradcheckRow& row) {
  if (std::isinf(row.worst_relative_error)) return "not finite";
  if (!row.reached) return "there is none: the tape never reached it, but the output depends on it";
  if (row.gradient_norm == 0.0) return "all zero, but the output depends on it";
  if (std::abs(row.factor - 1.0) < 1e-4 && row.cosine > 1.0 - 1e-4) {
    return "right but for small or single errors";
  }
  if (row.cosine * row.cosine > 1.0 - 1e-9) {
    return fmt::format("{:.6g} times what it should be: {}", row.factor,
                       likely_cause(row.factor, row.shape));
  }
  return fmt::format("not a multiple of what it should be (cosine {:.6g})", row.cosine);
}

}  // namespace

std::string place_of(const Shape& shape, std::optional<std::size_t> coordinate) {
  if (!coordinate) return "a direction";
  return shape.size() == 0 ? "" : place_in(shape, *coordinate);
}

std::string explanation(const GradcheckRow& row) {
  const std::string place = row.worst_coordinate ? "at " + place_of(row.shape, row.worst_coordinate)
                                                 : "along a random direction";
  return fmt::format("the gradient is {}; {} the tape says {:.9g}, differences say {:.9g}",
                     kind_of_error(row), place, row.analytic, row.numeric);
}

}  // namespace tapestry::gradcheck_detail
