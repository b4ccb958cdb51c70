// SPDX-License-Identifier: BSD-3-Clause
#include "data/io/random.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <numeric>

using namespace tapestry;

TEST_CASE("the stream matches the published test vectors of Philox4x32-10") {
  // kat_vectors of Random123: counter 0, key 0 gives 6627e8d5 e169c58d bc57ac4c 9b00dbd8.
  RandomDraws zeros(0, static_cast<DrawPurpose>(0), 0);
  CHECK(zeros.next() == 0xe169c58d6627e8d5u);
  CHECK(zeros.next() == 0x9b00dbd8bc57ac4cu);
}

TEST_CASE("every bit of seed, purpose and index changes the numbers") {
  const auto first = [](std::uint64_t seed, DrawPurpose purpose, std::uint64_t index) {
    return RandomDraws(seed, purpose, index).next();
  };
  const std::uint64_t reference = first(7, DrawPurpose::batch_order, 3);
  CHECK(first(7, DrawPurpose::batch_order, 3) == reference);
  CHECK(first(8, DrawPurpose::batch_order, 3) != reference);
  CHECK(first(7 + (1ull << 32), DrawPurpose::batch_order, 3) != reference);
  CHECK(first(7, DrawPurpose::training_example, 3) != reference);
  CHECK(first(7, DrawPurpose::batch_order, 4) != reference);
  CHECK(first(7, DrawPurpose::batch_order, 3 + (1ull << 32)) != reference);
}

TEST_CASE("a stream continues past its first block without repeating itself") {
  RandomDraws random(1, DrawPurpose::batch_order, 0);
  std::array<std::uint64_t, 1000> drawn;
  for (std::uint64_t& value : drawn) value = random.next();
  std::sort(drawn.begin(), drawn.end());
  CHECK(std::adjacent_find(drawn.begin(), drawn.end()) == drawn.end());
}

TEST_CASE("below(n) is less than n and uniform") {
  RandomDraws random(1, DrawPurpose::batch_order, 0);
  std::array<int, 7> counts{};
  for (int i = 0; i < 70000; ++i) ++counts.at(random.below(7));
  // Each count has mean 10000 and standard deviation 93.
  for (const int count : counts) CHECK(std::abs(count - 10000) < 500);
}

TEST_CASE("below(1) is 0, and below(n) for n near 2^64 reaches the upper half of its range") {
  RandomDraws random(1, DrawPurpose::batch_order, 0);
  CHECK(random.below(1) == 0);
  const std::uint64_t n = (1ull << 63) + 1;
  bool upper_half = false;
  for (int i = 0; i < 64; ++i) {
    const std::uint64_t value = random.below(n);
    REQUIRE(value < n);
    upper_half = upper_half || value > n / 2;
  }
  CHECK(upper_half);
}

TEST_CASE("below(n) is uniform if 2^64 is not a multiple of n") {
  // For n = 3/4 * 2^64, the remainder modulo n would be in the first third of [0, n) half of the
  // time.
  RandomDraws random(1, DrawPurpose::batch_order, 0);
  const std::uint64_t third = 1ull << 62;
  int in_first_third = 0;
  for (int i = 0; i < 9000; ++i) in_first_third += random.below(3 * third) < third ? 1 : 0;
  CHECK(std::abs(in_first_third - 3000) < 250);  // the standard deviation is 45
}

TEST_CASE("shuffle permutes the items, and every order of three is equally likely") {
  std::array<int, 6> counts{};
  for (std::uint64_t index = 0; index < 6000; ++index) {
    std::vector<int> items = {0, 1, 2};
    RandomDraws random(5, DrawPurpose::batch_order, index);
    shuffle(items, random);
    REQUIRE(std::accumulate(items.begin(), items.end(), 0) == 3);
    ++counts.at(static_cast<std::size_t>(items[0] * 2 + (items[1] > items[2])));
  }
  // Each count has mean 1000 and standard deviation 29.
  for (const int count : counts) CHECK(std::abs(count - 1000) < 150);
  RandomDraws random(1, DrawPurpose::batch_order, 0);
  std::vector<int> none, one = {4};
  shuffle(none, random);
  shuffle(one, random);
  CHECK(none.empty());
  CHECK(one == std::vector<int>{4});
}
