#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace tapestry::gradcheck_detail {

/// A straight line through the values of a tensor, x + t v, along which the tensor can be moved; v
/// is zero but at the coordinates given. At its end the values are what they were, to the bit.
class Line {
 public:
  Line(std::span<double> values, std::size_t coordinate)
      : Line(values, coordinate, std::vector<double>{1.0}) {}

  /// v is `direction` at the coordinates from `first` on.
  Line(std::span<double> values, std::size_t first, std::vector<double> direction)
      : values_(values.subspan(first, direction.size())),
        origin_(values_.begin(), values_.end()),
        direction_(std::move(direction)) {}

  ~Line() { std::copy(origin_.begin(), origin_.end(), values_.begin()); }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  void move_to(double t) {
    for (std::size_t i = 0; i < values_.size(); ++i) values_[i] = origin_[i] + t * direction_[i];
  }

 private:
  std::span<double> values_;
  std::vector<double> origin_;
  std::vector<double> direction_;
};

}  // namespace tapestry::gradcheck_detail
