#include "autograd/kernels/philox.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

using namespace tapestry::kernels;

// The known answers for philox4x32-10 that are published with Random123 (tests/kat_vectors).
TEST_CASE("philox gives the published known answers") {
  using Words = std::array<std::uint32_t, 4>;
  CHECK(philox(0, 0, 0) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  const std::uint64_t ones = ~std::uint64_t{0};
  CHECK(philox(ones, ones, ones) == Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox(0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e) ==
        Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("a group of words is 16 blocks of philox, word by word side by side") {
  const std::uint64_t keys[] = {0, 1, 0x0123456789abcdef, ~std::uint64_t{0}};
  const std::uint64_t groups[] = {
      0, 1, 2, 1000003, std::uint64_t{1} << 28, (std::uint64_t{1} << 60) - 1};
  for (const std::uint64_t key : keys) {
    for (const std::uint64_t group : groups) {
      CAPTURE(key);
      CAPTURE(group);
      for (const auto words_of : {philox_words, philox_words_by_loops}) {
        std::vector<std::uint32_t> words(philox_group + 1, 0xdeadbeef);
        words_of(key, group, words.data());
        for (std::size_t lane = 0; lane < 16; ++lane) {
          const auto expected = philox(key, 16 * group + lane, 0);
          for (std::size_t word = 0; word < 4; ++word) {
            CHECK(words[16 * word + lane] == expected[word]);
          }
        }
        CHECK(words[philox_group] == 0xdeadbeef);
      }
    }
  }
}
