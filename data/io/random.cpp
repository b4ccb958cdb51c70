// SPDX-License-Identifier: BSD-3-Clause
#include "data/io/random.h"

#include <Random123/philox.h>

namespace tapestry {

namespace {

std::uint32_t low_word(std::uint64_t x) { return static_cast<std::uint32_t>(x); }
std::uint32_t high_word(std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); }

std::uint64_t join_words(std::uint32_t low, std::uint32_t high) {
  return (static_cast<std::uint64_t>(high) << 32) | low;
}

}  // namespace

RandomDraws::RandomDraws(std::uint64_t seed, DrawPurpose purpose, std::uint64_t index)
    : key_{low_word(seed), high_word(seed)},
      counter_{0, static_cast<std::uint32_t>(purpose), low_word(index), high_word(index)} {}

std::uint64_t RandomDraws::next() {
  if (used_ == block_.size()) refill();
  return block_[used_++];
}

std::uint64_t RandomDraws::below(std::uint64_t n) {
  // 2^64 mod n. Smaller values are rejected, since they would make small remainders more likely.
  const std::uint64_t surplus = (0 - n) % n;
  std::uint64_t value = next();
  while (value < surplus) value = next();
  return value % n;
}

void RandomDraws::refill() {
  const philox4x32_ctr_t counter = {{counter_[0], counter_[1], counter_[2], counter_[3]}};
  const philox4x32_key_t key = {{key_[0], key_[1]}};
  const philox4x32_ctr_t words = philox4x32(counter, key);
  block_ = {join_words(words[0], words[1]), join_words(words[2], words[3])};
  ++counter_[0];
  used_ = 0;
}

}  // namespace tapestry
