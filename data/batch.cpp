#include "data/batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace tapestry {

namespace {

void check_indices(std::size_t number_of_pairs, std::span<const std::size_t> indices) {
  if (indices.empty()) {
    throw std::invalid_argument("batch: found no indices, expected at least one");
  }
  for (const std::size_t index : indices) {
    if (index >= number_of_pairs) {
      throw std::out_of_range(
          fmt::format("batch: found index {}, expected less than {}", index, number_of_pairs));
    }
  }
}

/// Sets everything that says how large the batch is.
void measure(const std::vector<SentencePair>& pairs, Batch& batch) {
  batch.rows = batch.examples.size();
  batch.source_lengths.clear();
  batch.target_lengths.clear();
  batch.target_tokens = 0;
  for (const std::size_t example : batch.examples) {
    batch.source_lengths.push_back(pairs[example].source.size() + 1);
    batch.target_lengths.push_back(pairs[example].target.size() + 1);
    batch.target_tokens += batch.target_lengths.back();
  }
  batch.source_length = *std::max_element(batch.source_lengths.begin(), batch.source_lengths.end());
  batch.target_length = *std::max_element(batch.target_lengths.begin(), batch.target_lengths.end());
}

void copy_row(const SentencePair& pair, std::size_t row, Batch& batch) {
  const auto offset = [row](std::size_t length) {
    return static_cast<std::ptrdiff_t>(row * length);
  };
  const auto source = batch.source.begin() + offset(batch.source_length);
  *std::copy(pair.source.begin(), pair.source.end(), source) = eos_id;

  const auto decoder_input = batch.decoder_input.begin() + offset(batch.target_length);
  *decoder_input = bos_id;
  std::copy(pair.target.begin(), pair.target.end(), decoder_input + 1);

  const auto labels = batch.labels.begin() + offset(batch.target_length);
  *std::copy(pair.target.begin(), pair.target.end(), labels) = eos_id;
}

}  // namespace

Batch make_batch(const std::vector<SentencePair>& pairs, std::span<const std::size_t> indices) {
  Batch batch;
  fill_batch(pairs, indices, batch);
  return batch;
}

void fill_batch(const std::vector<SentencePair>& pairs, std::span<const std::size_t> indices,
                Batch& batch) {
  check_indices(pairs.size(), indices);
  batch.examples.assign(indices.begin(), indices.end());
  measure(pairs, batch);
  batch.source.assign(batch.rows * batch.source_length, pad_id);
  batch.decoder_input.assign(batch.rows * batch.target_length, pad_id);
  batch.labels.assign(batch.rows * batch.target_length, no_label);
  for (std::size_t row = 0; row < batch.rows; ++row) {
    copy_row(pairs[batch.examples[row]], row, batch);
  }
}

}  // namespace tapestry
