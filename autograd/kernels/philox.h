// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "autograd/kernels/namespace.h"

namespace tapestry::kernels {

/// The four random words of one counter.
using PhiloxWords = std::array<std::uint32_t, 4>;

inline namespace TAPESTRY_KERNELS_NAMESPACE {

/// Philox4x32-10 (Salmon et al. 2011) of a 64-bit key and a 128-bit counter.
PhiloxWords philox(std::uint64_t key, std::uint64_t counter_low, std::uint64_t counter_high);

}  // namespace TAPESTRY_KERNELS_NAMESPACE

/// Number of random words in a group. A group is a pure function of key and group number.
inline constexpr std::size_t philox_group = 64;

inline namespace TAPESTRY_KERNELS_NAMESPACE {

/// Writes the 64 words of group `group` of the stream `key`: word 16 w + l is word w of
/// philox(key, 16 group + l), so that all 16 blocks are computed side by side in vector registers.
void philox_words(std::uint64_t key, std::uint64_t group, std::uint32_t* words);

/// philox_words() by plain loops, for builds without AVX-512.
void philox_words_by_loops(std::uint64_t key, std::uint64_t group, std::uint32_t* words);

}  // namespace TAPESTRY_KERNELS_NAMESPACE

}  // namespace tapestry::kernels
