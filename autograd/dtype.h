#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace tapestry {

/// Element type of a tensor, chosen at run time.
enum class DType : std::uint8_t {
  float32,  ///< IEEE 754 binary32, `float`: 4 bytes
  float64   ///< IEEE 754 binary64, `double`: 8 bytes
};

/// The element type of the C++ type T: float or double.
template <class T>
inline constexpr DType dtype_of = std::is_same_v<T, double> ? DType::float64 : DType::float32;

/// The name as in configs: "float32" or "float64".
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
