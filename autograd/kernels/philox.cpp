// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/kernels/philox.h"

#include <Random123/philox.h>
#if defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE {
namespace {

r123::Philox4x32::ctr_type block(std::uint64_t key, std::uint64_t low, std::uint64_t high) {
  const r123::Philox4x32::ctr_type counter = {
      {static_cast<std::uint32_t>(low), static_cast<std::uint32_t>(low >> 32),
       static_cast<std::uint32_t>(high), static_cast<std::uint32_t>(high >> 32)}};
  const r123::Philox4x32::key_type words = {
      {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)}};
  return r123::Philox4x32{}(counter, words);
}

#if defined(__AVX512F__)

/// 8 of the 16 blocks of a group; 64-bit lanes hold 32-bit words, with arbitrary upper halves.
struct Lanes {
  __m512i c0, c1, c2, c3;

  explicit Lanes(std::uint64_t first_counter)
      : c0(_mm512_add_epi64(_mm512_set1_epi64(static_cast<long long>(first_counter)),
                            _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0))),
        c1(upper_half(c0)),
        c2(_mm512_setzero_si512()),
        c3(_mm512_setzero_si512()) {}

  void round(__m512i k0, __m512i k1) {
    constexpr int exclusive_or_of_three = 0x96;
    const __m512i a = _mm512_mul_epu32(_mm512_set1_epi64(PHILOX_M4x32_0), c0);
    const __m512i b = _mm512_mul_epu32(_mm512_set1_epi64(PHILOX_M4x32_1), c2);
    c0 = _mm512_ternarylogic_epi64(upper_half(b), c1, k0, exclusive_or_of_three);
    c2 = _mm512_ternarylogic_epi64(upper_half(a), c3, k1, exclusive_or_of_three);
    c1 = b;
    c3 = a;
  }

  void store(std::uint32_t* words) const {
    constexpr std::size_t blocks = philox_group / 4;
    const auto put = [&](std::size_t word, __m512i c) {
      _mm512_mask_cvtepi64_storeu_epi32(words + word * blocks, 0xff, c);
    };
    put(0, c0), put(1, c1), put(2, c2), put(3, c3);
  }

  /// Uses a shuffle, because a shift would use the same execution unit as the multiplications.
  static __m512i upper_half(__m512i x) { return _mm512_shuffle_epi32(x, _MM_PERM_DDBB); }
};

void group_words(std::uint64_t key, std::uint64_t group, std::uint32_t* words) {
  constexpr std::size_t blocks = philox_group / 4;
  Lanes low(blocks * group), high(blocks * group + 8);
  auto k0 = static_cast<std::uint32_t>(key);
  auto k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    low.round(_mm512_set1_epi64(k0), _mm512_set1_epi64(k1));
    high.round(_mm512_set1_epi64(k0), _mm512_set1_epi64(k1));
    k0 += PHILOX_W32_0;
    k1 += PHILOX_W32_1;
  }
  low.store(words);
  high.store(words + 8);
}

#endif

}  // namespace

// The rounds are written out over all lanes, because compilers do not vectorize calls of Random123;
// a test compares the two.
void philox_words_by_loops(std::uint64_t key, std::uint64_t group, std::uint32_t* words) {
  constexpr std::size_t lanes = philox_group / 4;
  std::uint32_t* const c0 = words;
  std::uint32_t* const c1 = words + lanes;
  std::uint32_t* const c2 = words + 2 * lanes;
  std::uint32_t* const c3 = words + 3 * lanes;
  for (std::size_t l = 0; l < lanes; ++l) {
    const std::uint64_t counter = lanes * group + l;
    c0[l] = static_cast<std::uint32_t>(counter);
    c1[l] = static_cast<std::uint32_t>(counter >> 32);
    c2[l] = 0;
    c3[l] = 0;
  }
  auto k0 = static_cast<std::uint32_t>(key);
  auto k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    for (std::size_t l = 0; l < lanes; ++l) {
      const std::uint64_t a = std::uint64_t{PHILOX_M4x32_0} * c0[l];
      const std::uint64_t b = std::uint64_t{PHILOX_M4x32_1} * c2[l];
      c0[l] = static_cast<std::uint32_t>(b >> 32) ^ c1[l] ^ k0;
      c2[l] = static_cast<std::uint32_t>(a >> 32) ^ c3[l] ^ k1;
      c1[l] = static_cast<std::uint32_t>(b);
      c3[l] = static_cast<std::uint32_t>(a);
    }
    k0 += PHILOX_W32_0;
    k1 += PHILOX_W32_1;
  }
}

PhiloxWords philox(std::uint64_t key, std::uint64_t counter_low, std::uint64_t counter_high) {
  const auto words = block(key, counter_low, counter_high);
  return {words[0], words[1], words[2], words[3]};
}

void philox_words(std::uint64_t key, std::uint64_t group, std::uint32_t* words) {
#if defined(__AVX512F__)
  group_words(key, group, words);
#else
  philox_words_by_loops(key, group, words);
#endif
}

}  // namespace tapestry::kernels::inline TAPESTRY_KERNELS_NAMESPACE
