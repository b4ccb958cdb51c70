// SPDX-License-Identifier: BSD-3-Clause
#include "train/inference/batch_tensors.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tapestry {
namespace {

Ids matrix(std::size_t rows, std::size_t columns, const std::vector<std::int32_t>& values) {
  Ids ids = Ids::zeros({rows, columns});
  std::copy(values.begin(), values.end(), ids.begin());
  return ids;
}

TokenBatch tokens(std::size_t rows, std::size_t columns, const std::vector<std::int32_t>& values,
                  const std::vector<std::size_t>& lengths) {
  return {.ids = matrix(rows, columns, values), .lengths = {lengths.begin(), lengths.end()}};
}

/// (rows, values of an image); an empty tensor for a batch without images.
Tensor images(const Batch& batch, DType dtype) {
  if (batch.pixels.empty()) return {};
  Tensor pixels = Tensor::empty({batch.rows, batch.pixels.size() / batch.rows}, dtype);
  dispatch(dtype,
           [&]<class T>() { std::ranges::copy(batch.pixels, pixels.mutable_values<T>().begin()); });
  return pixels;
}

}  // namespace

NetworkInput network_input(const Batch& batch, DType dtype) {
  return {.source = tokens(batch.rows, batch.source_length, batch.source, batch.source_lengths),
          .target = tokens(batch.rows, batch.target_length, batch.input, batch.target_lengths),
          .images = images(batch, dtype)};
}

Ids label_ids(const Batch& batch) { return matrix(batch.rows, batch.target_length, batch.labels); }

}  // namespace tapestry
