// SPDX-License-Identifier: BSD-3-Clause
#include "train/inference/batch_tensors.h"

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <vector>

namespace tapestry {
namespace {

/// The pairs (4 5 -> 6) and (7 -> 8 9 4).
Batch two_rows() {
  const std::vector<Example> pairs{{{4, 5}, {6}}, {{7}, {8, 9, 4}}};
  return make_batch(pairs, std::array<std::size_t, 2>{0, 1});
}

TEST_CASE("the source of a batch becomes rows of ids that end with <eos> and padding") {
  const TokenBatch source = network_input(two_rows(), DType::float32).source;
  CHECK(source.ids == Ids{{4, 5, 3}, {7, 3, 0}});
  CHECK(source.lengths == std::vector<std::int32_t>{3, 2});
}

TEST_CASE("the input of the decoder begins with <bos> and is as long as the labels") {
  const Batch batch = two_rows();
  const TokenBatch target = network_input(batch, DType::float32).target;
  CHECK(target.ids == Ids{{2, 6, 0, 0}, {2, 8, 9, 4}});
  CHECK(target.lengths == std::vector<std::int32_t>{2, 4});
  CHECK(label_ids(batch) == Ids{{6, 3, no_label, no_label}, {8, 9, 4, 3}});
}

TEST_CASE("the pixels of a batch become a row for each image, in the precision of the model") {
  const std::vector<Example> images{{.target = {4}, .pixels = {0.5F, 0.25F, 1.0F}},
                                    {.target = {5}, .pixels = {0.1F, 0.0F, -2.0F}}};
  const Batch batch = make_batch(images, std::array<std::size_t, 2>{1, 0}, {.layout = class_rows});
  for (const DType dtype : {DType::float32, DType::float64}) {
    const Tensor pixels = network_input(batch, dtype).images;
    CHECK(pixels.dtype() == dtype);
    CHECK(pixels.shape() == Shape{2, 3});
  }
  const Tensor pixels = network_input(batch, DType::float64).images;
  const auto values = pixels.values<double>();
  CHECK(std::vector<double>(values.begin(), values.end()) ==
        std::vector<double>{static_cast<double>(0.1F), 0.0, -2.0, 0.5, 0.25, 1.0});
  CHECK(label_ids(batch) == Ids{{1}, {0}});
  CHECK_FALSE(network_input(two_rows(), DType::float32).images.defined());
}

}  // namespace
}  // namespace tapestry
