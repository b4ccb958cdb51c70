#include "autograd/attention_mask.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

using namespace tapestry;

namespace {

/// Checks that query i of sentence b may attend to the keys [first, last), of n_q queries and n_k
/// keys, as far as positions say.
void check_keys(const AttentionMask& mask, std::size_t b, std::size_t i, std::size_t n_q,
                std::size_t n_k, AttentionMask::Range expected) {
  const auto [first, last] = mask.keys(b, i, n_q, n_k);
  CHECK(first == expected.first);
  CHECK(last == expected.last);
}

}  // namespace

TEST_CASE("of two paddings the shorter counts, sentence by sentence and whichever comes first") {
  const AttentionMask a = AttentionMask::padding({2, 5, 3});
  const AttentionMask b = AttentionMask::padding({4, 1, 3});
  for (const AttentionMask& both : {a & b, b & a}) {
    check_keys(both, 0, 0, 5, 5, {0, 2});
    check_keys(both, 1, 0, 5, 5, {0, 1});
    check_keys(both, 2, 0, 5, 5, {0, 3});
  }
}

TEST_CASE("a mask combined with none is itself, whichever comes first") {
  const AttentionMask none;
  const std::vector<std::uint8_t> keep = {1, 0, 0, 1};
  const AttentionMask mask = AttentionMask::causal() & AttentionMask::window(0) &
                             AttentionMask::padding({2}) & AttentionMask::keep(1, 2, 2, keep);
  for (const AttentionMask& both : {none & mask, mask & none}) {
    check_keys(both, 0, 0, 2, 2, {0, 1});
    check_keys(both, 0, 1, 2, 2, {1, 2});
    REQUIRE(both.keep_row(0, 1) != nullptr);
    CHECK(both.keep_row(0, 1)[0] == 0);
    CHECK(both.keep_row(0, 1)[1] == 1);
  }
  CHECK((none & none).keep_row(0, 0) == nullptr);
}

TEST_CASE("a keep-mask has a row for each query of each sentence") {
  const std::vector<std::uint8_t> keep = {1, 1, 0, 1, 0, 1,   // sentence 0: 2 queries, 3 keys
                                          0, 0, 1, 1, 1, 1};  // sentence 1
  const AttentionMask mask = AttentionMask::keep(2, 2, 3, keep);
  for (std::size_t b = 0; b < 2; ++b) {
    for (std::size_t i = 0; i < 2; ++i) {
      for (std::size_t j = 0; j < 3; ++j) {
        CHECK(mask.keep_row(b, i)[j] == keep[(b * 2 + i) * 3 + j]);
      }
    }
  }
}

TEST_CASE("a padding beyond the keys there are hides nothing") {
  check_keys(AttentionMask::padding({7}), 0, 0, 2, 3, {0, 3});
}
