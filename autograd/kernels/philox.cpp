#include "autograd/kernels/philox.h"

#include <Random123/philox.h>

namespace tapestry::kernels {
namespace {

r123::Philox4x32::ctr_type block(std::uint64_t key, std::uint64_t low, std::uint64_t high) {
  const r123::Philox4x32::ctr_type counter = {
      {static_cast<std::uint32_t>(low), static_cast<std::uint32_t>(low >> 32),
       static_cast<std::uint32_t>(high), static_cast<std::uint32_t>(high >> 32)}};
  const r123::Philox4x32::key_type words = {
      {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)}};
  return r123::Philox4x32{}(counter, words);
}

}  // namespace

std::array<std::uint32_t, 4> philox(std::uint64_t key, std::uint64_t counter_low,
                                    std::uint64_t counter_high) {
  const auto words = block(key, counter_low, counter_high);
  return {words[0], words[1], words[2], words[3]};
}

// The rounds are spelled out here, over all lanes side by side, because compilers do not vectorise
// calls of Random123; a test holds the two against each other.
void philox_words(std::uint64_t key, std::uint64_t group, std::uint32_t* words) {
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

}  // namespace tapestry::kernels
