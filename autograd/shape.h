// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

namespace tapestry {

/// Types that can index an axis: any integer type except bool, so that mean(x, true) and
/// max(x, 0.0) do not compile.
template <class T>
concept AxisIndex = std::integral<T> && !std::same_as<T, bool>;

/// Extents of the axes of a row-major tensor; a scalar has no axes. Up to `max_rank` axes are
/// stored inline, without allocation.
class Shape {
 public:
  /// Maximum number of axes.
  static constexpr std::size_t max_rank = 8;

  /// The shape of a scalar: ().
  Shape() = default;
  /// The extents of the axes: Shape{32, 10, 64}. Throws ShapeError for more than `max_rank` axes.
  Shape(std::initializer_list<std::size_t> extents)
      : Shape(std::span(extents.begin(), extents.size())) {}
  /// The extents from an array. Throws ShapeError for more than `max_rank` axes.
  explicit Shape(std::span<const std::size_t> extents);

  /// Number of axes.
  std::size_t rank() const { return rank_; }
  /// Number of elements: the product of the extents, 1 for a scalar.
  std::size_t size() const;
  /// The extent of an axis, counted from the front, or from the back if negative: shape[-1] is the
  /// extent of the last axis. Throws ShapeError if the axis does not exist.
  std::size_t operator[](AxisIndex auto axis) const { return extents_[checked(axis)]; }
  std::size_t& operator[](AxisIndex auto axis) { return extents_[checked(axis)]; }  ///< \overload
  /// The extent of the last axis. Throws ShapeError for a scalar.
  std::size_t back() const { return (*this)[-1]; }
  /// The extents in order.
  const std::size_t* begin() const { return extents_.data(); }
  /// Past the last extent.
  const std::size_t* end() const { return extents_.data() + rank_; }

  /// Product of the extents of the axes [first, last).
  std::size_t product(std::size_t first, std::size_t last) const;
  /// The shape with its last extent replaced. Throws ShapeError for a scalar.
  Shape with_last(std::size_t extent) const;
  /// The shape with a new axis in front of the axis `axis` <= rank(). Throws ShapeError if it
  /// already has `max_rank` axes.
  Shape inserted(std::size_t axis, std::size_t extent) const;
  /// The shape without the axis `axis` < rank().
  Shape erased(std::size_t axis) const;

  /// Whether rank and all extents are equal.
  bool operator==(const Shape& other) const;

 private:
  template <class Axis>
  std::size_t checked(Axis axis) const {
    auto result = static_cast<std::size_t>(axis);
    if constexpr (std::is_signed_v<Axis>) {
      if (axis < 0) result += rank_;
    }
    if (result >= rank_) reject_axis(std::to_string(axis));
    return result;
  }
  [[noreturn]] void reject_axis(const std::string& axis) const;

  std::array<std::size_t, max_rank> extents_{};
  std::size_t rank_ = 0;
};

/// "(32, 10, 64)"; a scalar is "()".
std::string to_string(const Shape& shape);
/// Writes to_string(shape).
std::ostream& operator<<(std::ostream& out, const Shape& shape);

/// The indices of a row-major position: "[1, 2]" for position 5 in (2, 3); "[]" for a scalar.
std::string place_in(const Shape& shape, std::size_t position);

/// The broadcast shape of a and b: aligned at their last axes, an extent of 1 expands to the other
/// extent. Throws ShapeError, naming `operation`, if they do not broadcast.
Shape broadcast_shape(const char* operation, const Shape& a, const Shape& b);

/// The index of an axis counted from the front, or from the back if negative. Throws ValueError if
/// the axis does not exist.
std::size_t resolve_axis(const char* operation, std::ptrdiff_t axis, std::size_t rank);

/// Element type of a tensor, chosen at run time.
enum class DType : std::uint8_t {
  float32,  ///< IEEE 754 binary32, `float`: 4 bytes
  float64   ///< IEEE 754 binary64, `double`: 8 bytes
};

/// The element type of the C++ type T: float or double.
template <class T>
inline constexpr DType dtype_of = std::is_same_v<T, double> ? DType::float64 : DType::float32;

/// The name in configs: "float32" or "float64".
constexpr const char* name(DType dtype) { return dtype == DType::float32 ? "float32" : "float64"; }

/// The size of one element: 4 or 8.
constexpr std::size_t bytes_per_element(DType dtype) { return dtype == DType::float32 ? 4 : 8; }

/// Calls `f.template operator()<T>()` with the C++ type of `dtype`.
template <class F>
decltype(auto) dispatch(DType dtype, F&& f) {
  if (dtype == DType::float64) return std::forward<F>(f).template operator()<double>();
  return std::forward<F>(f).template operator()<float>();
}

}  // namespace tapestry
