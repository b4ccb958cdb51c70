#include "train/batch_tensors.h"

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <vector>
#include <xtensor/xtensor.hpp>

namespace tapestry {
namespace {

/// (4 5 -> 6) and (7 -> 8 9 4).
Batch two_rows() {
  const std::vector<SentencePair> pairs{{{4, 5}, {6}}, {{7}, {8, 9, 4}}};
  return make_batch(pairs, std::array<std::size_t, 2>{0, 1});
}

TEST_CASE("the source of a batch becomes rows of ids that end with <eos> and padding") {
  const TokenBatch source = network_input(two_rows(), DType::float32).source;
  CHECK(source.ids == Ids{{4, 5, 3}, {7, 3, 0}});
  CHECK(source.lengths == std::vector<std::int32_t>{3, 2});
}

TEST_CASE("what the decoder reads begins with <bos> and is as long as the labels") {
  const Batch batch = two_rows();
  const TokenBatch target = network_input(batch, DType::float32).target;
  CHECK(target.ids == Ids{{2, 6, 0, 0}, {2, 8, 9, 4}});
  CHECK(target.lengths == std::vector<std::int32_t>{2, 4});
  CHECK(label_ids(batch) == Ids{{6, 3, no_label, no_label}, {8, 9, 4, 3}});
}

}  // namespace
}  // namespace tapestry
