#include "train/batch_tensors.h"

#include <algorithm>

namespace tapestry {
namespace {

Ids matrix(std::size_t rows, std::size_t columns, const std::vector<std::int32_t>& values) {
  Ids ids = Ids::from_shape({rows, columns});
  std::copy(values.begin(), values.end(), ids.begin());
  return ids;
}

TokenBatch tokens(std::size_t rows, std::size_t columns, const std::vector<std::int32_t>& values,
                  const std::vector<std::size_t>& lengths) {
  return {.ids = matrix(rows, columns, values), .lengths = {lengths.begin(), lengths.end()}};
}

}  // namespace

NetworkInput network_input(const Batch& batch) {
  return {
      .source = tokens(batch.rows, batch.source_length, batch.source, batch.source_lengths),
      .target = tokens(batch.rows, batch.target_length, batch.decoder_input, batch.target_lengths)};
}

Ids label_ids(const Batch& batch) { return matrix(batch.rows, batch.target_length, batch.labels); }

}  // namespace tapestry
