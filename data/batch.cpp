#include "data/batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "data/masking.h"

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

/// The number of source tokens of an example in a batch, <eos> included.
std::size_t source_tokens(const Example& pair, Objective objective) {
  const bool reads_source = objective == Objective::translation || objective == Objective::label;
  return reads_source && pair.pixels.empty() ? pair.source.size() + 1 : 0;
}

/// The number of labels of an example in a batch, including no_label.
std::size_t target_tokens(const Example& pair, Objective objective) {
  switch (objective) {
    case Objective::translation:
      return pair.target.size() + 1;
    case Objective::next_token:
      return pair.target.size() - 1;
    case Objective::masked_tokens:
      return pair.target.size();
    case Objective::label:
      break;
  }
  return 1;
}

/// Sets the dimensions and lengths of the batch.
void measure(const std::vector<Example>& examples, Objective objective, Batch& batch) {
  batch.rows = batch.examples.size();
  batch.source_lengths.clear();
  batch.target_lengths.clear();
  for (const std::size_t example : batch.examples) {
    batch.source_lengths.push_back(source_tokens(examples[example], objective));
    batch.target_lengths.push_back(target_tokens(examples[example], objective));
  }
  batch.source_length = *std::max_element(batch.source_lengths.begin(), batch.source_lengths.end());
  batch.target_length = *std::max_element(batch.target_lengths.begin(), batch.target_lengths.end());
}

/// The first elements of one row of a batch.
struct Row {
  std::int32_t *source, *input, *labels;
};

Row batch_row(Batch& batch, std::size_t row) {
  return {.source = batch.source.data() + row * batch.source_length,
          .input = batch.decoder_input.data() + row * batch.target_length,
          .labels = batch.labels.data() + row * batch.target_length};
}

void copy_pair(const Example& pair, const Row& row) {
  *std::ranges::copy(pair.source, row.source).out = eos_id;
  *row.input = bos_id;
  std::ranges::copy(pair.target, row.input + 1);
  *std::ranges::copy(pair.target, row.labels).out = eos_id;
}

void copy_window(const Example& window, const Row& row) {
  std::copy(window.target.begin(), window.target.end() - 1, row.input);
  std::copy(window.target.begin() + 1, window.target.end(), row.labels);
}

void copy_labelled(const Example& example, const Row& row) {
  if (example.pixels.empty()) *std::ranges::copy(example.source, row.source).out = eos_id;
  *row.labels = example.target.front() - first_word_id;
}

void copy_row(const Example& pair, std::size_t example, const BatchRules& rules, const Row& row) {
  switch (rules.objective) {
    case Objective::translation:
      return copy_pair(pair, row);
    case Objective::next_token:
      return copy_window(pair, row);
    case Objective::masked_tokens:
      return mask_tokens(pair.target, rules, example, row.input, row.labels);
    case Objective::label:
      return copy_labelled(pair, row);
  }
}

}  // namespace

Batch make_batch(const std::vector<Example>& examples, std::span<const std::size_t> indices,
                 const BatchRules& rules) {
  Batch batch;
  fill_batch(examples, indices, batch, rules);
  return batch;
}

void fill_batch(const std::vector<Example>& examples, std::span<const std::size_t> indices,
                Batch& batch, const BatchRules& rules) {
  check_indices(examples.size(), indices);
  batch.examples.assign(indices.begin(), indices.end());
  measure(examples, rules.objective, batch);
  batch.source.assign(batch.rows * batch.source_length, pad_id);
  batch.decoder_input.assign(batch.rows * batch.target_length, pad_id);
  batch.labels.assign(batch.rows * batch.target_length, no_label);
  batch.pixels.clear();
  for (std::size_t row = 0; row < batch.rows; ++row) {
    const Example& pair = examples[batch.examples[row]];
    copy_row(pair, batch.examples[row], rules, batch_row(batch, row));
    batch.pixels.insert(batch.pixels.end(), pair.pixels.begin(), pair.pixels.end());
  }
  batch.target_tokens =
      batch.labels.size() - static_cast<std::size_t>(std::ranges::count(batch.labels, no_label));
}

std::size_t longest_side(const Example& pair, Objective objective) {
  return std::max(source_tokens(pair, objective), target_tokens(pair, objective));
}

double share_of_unknown_tokens(const std::vector<Example>& examples, Objective objective) {
  std::size_t tokens = 0, unknown = 0;
  const auto count = [&](const std::vector<std::int32_t>& ids) {
    for (const std::int32_t id : ids) {
      unknown += id == unk_id ? 1 : 0;
      tokens += id == unk_id || id >= first_word_id ? 1 : 0;
    }
  };
  for (const Example& example : examples) {
    count(example.source);
    if (objective != Objective::label) count(example.target);
  }
  return tokens == 0 ? 0.0 : static_cast<double>(unknown) / static_cast<double>(tokens);
}

}  // namespace tapestry
