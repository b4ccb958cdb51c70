#include "autograd/attention_mask.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "autograd/error.h"

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

TEST_CASE("two padding masks combined keep the shorter length of each sentence, in either order") {
  const AttentionMask a = AttentionMask::padding({2, 5, 3});
  const AttentionMask b = AttentionMask::padding({4, 1, 3});
  for (const AttentionMask& both : {a & b, b & a}) {
    check_keys(both, 0, 0, 5, 5, {0, 2});
    check_keys(both, 1, 0, 5, 5, {0, 1});
    check_keys(both, 2, 0, 5, 5, {0, 3});
  }
}

TEST_CASE("a mask combined with an empty mask is unchanged, in either order") {
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

TEST_CASE("a padding length greater than the number of keys is refused if that number is known") {
  const AttentionMask mask = AttentionMask::padding({3, 4});
  CHECK_NOTHROW(mask.require_fitting("op", 2, 5, 4));
  CHECK_THROWS_WITH_AS(mask.require_fitting("op", 2, 5, 3),
                       "op: the length of sentence 1 in the padding mask is 4, expected at most 3 "
                       "(the number of keys)",
                       ValueError);
}

TEST_CASE(
    "a mask refuses lengths below 0 and entries that are not one for each key, saying where") {
  CHECK_NOTHROW(AttentionMask::padding({3, 0}));
  CHECK_THROWS_WITH_AS(AttentionMask::padding({3, 0, -2}),
                       "attention mask: length -2 of sentence 2 is negative", ValueError);
  for (const std::size_t size : {23, 25}) {
    CHECK_THROWS_AS(AttentionMask::keep(2, 3, 4, std::vector<std::uint8_t>(size, 1)), ShapeError);
  }
  CHECK_THROWS_WITH_AS(AttentionMask::keep(2, 3, 4, {1}),
                       "attention mask: 1 entries given for (2, 3, 4), expected 24", ShapeError);
}

TEST_CASE(
    "each extent of a keep-mask has to fit, and the number of lengths, in whole and combined") {
  const auto keep = [](std::size_t batch, std::size_t n_q, std::size_t n_k) {
    return AttentionMask::keep(batch, n_q, n_k, std::vector<std::uint8_t>(batch * n_q * n_k, 1));
  };
  const AttentionMask mask = keep(2, 3, 4);
  CHECK_NOTHROW(mask.require_fitting("op", 2, 3, 4));
  CHECK_THROWS_WITH_AS(mask.require_fitting("op", 1, 3, 4),
                       "op: the keep-mask is (2, 3, 4), expected (1, 3, 4)", ShapeError);
  CHECK_THROWS_WITH_AS(mask.require_fitting("op", 2, 5, 4),
                       "op: the keep-mask is (2, 3, 4), expected (2, 5, 4)", ShapeError);
  CHECK_THROWS_WITH_AS(mask.require_fitting("op", 2, 3, 6),
                       "op: the keep-mask is (2, 3, 4), expected (2, 3, 6)", ShapeError);
  CHECK_THROWS_WITH_AS(mask & keep(2, 4, 3),
                       "attention mask: the keep-mask is (2, 4, 3), expected (2, 3, 4)",
                       ShapeError);
  CHECK_THROWS_WITH_AS(
      AttentionMask::padding({1, 2, 3}) & AttentionMask::padding({1, 2}),
      "attention mask: the padding mask has 2 lengths, expected 3 (the batch size)", ShapeError);
}

TEST_CASE("a window mask reaches its radius on both sides of the query's position among the keys") {
  const AttentionMask mask = AttentionMask::window(2);
  check_keys(mask, 0, 0, 9, 9, {0, 3});
  check_keys(mask, 0, 4, 9, 9, {2, 7});
  check_keys(mask, 0, 8, 9, 9, {6, 9});
  check_keys(mask, 0, 0, 1, 9, {6, 9});  // one query is the last
  check_keys(mask & AttentionMask::causal(), 0, 4, 9, 9, {2, 5});
  check_keys(mask & AttentionMask::padding({5}), 0, 4, 9, 9, {2, 5});
  const auto [first, last] = (mask & AttentionMask::padding({1})).keys(0, 8, 9, 9);
  CHECK(first == last);  // what is left of the sentence is too far away
}
