// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <bit>
#include <cstdint>

namespace tapestry {

/// The bits of the bfloat16 value that is closest to x: sign, 8 bits of exponent, 7 bits of
/// fraction. Ties round to even; infinity if |x| exceeds all finite values by more than half a
/// step. NaN stays NaN.
inline std::uint16_t to_bfloat16(float x) {
  constexpr std::uint32_t half = 0x7fff, quiet = 0x400000;
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if (x != x) return static_cast<std::uint16_t>((bits | quiet) >> 16U);
  return static_cast<std::uint16_t>((bits + half + ((bits >> 16U) & 1U)) >> 16U);
}

/// The value of a bfloat16 with these bits.
inline float from_bfloat16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
}

/// x rounded to bfloat16; a double is rounded to float first.
template <class T>
T rounded_to_bfloat16(T x) {
  return static_cast<T>(from_bfloat16(to_bfloat16(static_cast<float>(x))));
}

}  // namespace tapestry
