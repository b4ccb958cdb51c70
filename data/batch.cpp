// SPDX-License-Identifier: BSD-3-Clause
#include "data/batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <vector>

#include "data/io/random.h"

namespace tapestry {
namespace {

void check_indices(std::size_t num_examples, std::span<const std::size_t> indices) {
  if (indices.empty()) {
    throw std::invalid_argument("batch: found no indices, expected at least one");
  }
  for (const std::size_t index : indices) {
    if (index >= num_examples) {
      throw std::out_of_range(
          fmt::format("batch: found index {}, expected less than {}", index, num_examples));
    }
  }
}

std::size_t no_tokens(const ExampleLengths&) { return 0; }
std::size_t source_with_eos(const ExampleLengths& example) { return example.source + 1; }
std::size_t text_with_eos(const ExampleLengths& example) {
  return example.pixels == 0 ? source_with_eos(example) : 0;
}
std::size_t target_tokens(const ExampleLengths& example) { return example.target; }
std::size_t target_with_eos(const ExampleLengths& pair) { return pair.target + 1; }
std::size_t predicted_tokens(const ExampleLengths& window) { return window.target - 1; }
std::size_t one_label(const ExampleLengths&) { return 1; }

void write_pair(const Example& pair, std::size_t, const BatchRules&, const BatchRow& row) {
  *std::ranges::copy(pair.source, row.source).out = eos_id;
  *row.input = bos_id;
  std::ranges::copy(pair.target, row.input + 1);
  *std::ranges::copy(pair.target, row.labels).out = eos_id;
}

void write_window(const Example& window, std::size_t, const BatchRules&, const BatchRow& row) {
  std::copy(window.target.begin(), window.target.end() - 1, row.input);
  std::copy(window.target.begin() + 1, window.target.end(), row.labels);
}

void write_masked(const Example& example, std::size_t index, const BatchRules& rules,
                  const BatchRow& row) {
  mask_tokens(example.target, rules, index, row.input, row.labels);
}

void write_unmasked(const Example& example, std::size_t, const BatchRules&, const BatchRow& row) {
  std::ranges::copy(example.target, row.input);
}

void write_class(const Example& example, std::size_t, const BatchRules&, const BatchRow& row) {
  if (example.pixels.empty()) *std::ranges::copy(example.source, row.source).out = eos_id;
  *row.labels = example.target.front() - first_word_id;
}

/// The examples of a batch, one for each row. Owns the examples that are read from a file or
/// transformed.
class RowExamples {
 public:
  RowExamples(const Examples& examples, std::span<const std::size_t> indices,
              const BatchRules& rules)
      : examples_(examples), indices_(indices) {
    if (examples.in_memory() && !rules.transform) return;
    for (const std::size_t index : indices) {
      Example buffer;
      const Example& example = examples.read(index, buffer);
      owned_.push_back(rules.transform ? (*rules.transform)(example, index, rules.epoch)
                                       : std::move(buffer));
    }
  }

  const Example& operator[](std::size_t row) const {
    Example unused;  // not used, because the examples are in memory
    return owned_.empty() ? examples_.read(indices_[row], unused) : owned_[row];
  }

 private:
  const Examples& examples_;
  std::span<const std::size_t> indices_;
  std::vector<Example> owned_;  ///< empty if the examples are in memory
};

/// Computes the dimensions and lengths of the batch.
void measure(const RowExamples& examples, const RowLayout& layout, Batch& batch) {
  batch.rows = batch.examples.size();
  batch.source_lengths.clear();
  batch.target_lengths.clear();
  for (std::size_t row = 0; row < batch.rows; ++row) {
    batch.source_lengths.push_back(layout.source_length(examples[row]));
    batch.target_lengths.push_back(layout.target_length(examples[row]));
  }
  batch.source_length = std::ranges::max(batch.source_lengths);
  batch.target_length = std::ranges::max(batch.target_lengths);
}

BatchRow batch_row(Batch& batch, std::size_t row) {
  return {.source = batch.source.data() + row * batch.source_length,
          .input = batch.input.data() + row * batch.target_length,
          .labels = batch.labels.data() + row * batch.target_length};
}

}  // namespace

// Constant-initialized, because initializers in other files copy it through BatchRules.
constinit const RowLayout pair_rows{
    .source_length = source_with_eos, .target_length = target_with_eos, .write = write_pair};
constinit const RowLayout window_rows{
    .source_length = no_tokens, .target_length = predicted_tokens, .write = write_window};
constinit const RowLayout masked_rows{
    .source_length = no_tokens, .target_length = target_tokens, .write = write_masked};
constinit const RowLayout unmasked_rows{
    .source_length = no_tokens, .target_length = target_tokens, .write = write_unmasked};
constinit const RowLayout class_rows{.source_length = text_with_eos,
                                     .target_length = one_label,
                                     .write = write_class,
                                     .labels_are_classes = true};

Batch make_batch(const Examples& examples, std::span<const std::size_t> indices,
                 const BatchRules& rules) {
  Batch batch;
  fill_batch(examples, indices, batch, rules);
  return batch;
}

void fill_batch(const Examples& examples, std::span<const std::size_t> indices, Batch& batch,
                const BatchRules& rules) {
  check_indices(examples.size(), indices);
  batch.examples.assign(indices.begin(), indices.end());
  batch.epoch = rules.epoch;
  const RowExamples rows(examples, batch.examples, rules);
  measure(rows, rules.layout, batch);
  batch.source.assign(batch.rows * batch.source_length, pad_id);
  batch.input.assign(batch.rows * batch.target_length, pad_id);
  batch.labels.assign(batch.rows * batch.target_length, no_label);
  batch.pixels.clear();
  for (std::size_t row = 0; row < batch.rows; ++row) {
    const Example& example = rows[row];
    rules.layout.write(example, batch.examples[row], rules, batch_row(batch, row));
    batch.pixels.insert(batch.pixels.end(), example.pixels.begin(), example.pixels.end());
  }
  batch.target_tokens =
      batch.labels.size() - static_cast<std::size_t>(std::ranges::count(batch.labels, no_label));
}

std::size_t longest_side(const ExampleLengths& example, const RowLayout& layout) {
  return std::max(layout.source_length(example), layout.target_length(example));
}

std::uint64_t count_tokens(const Examples& examples, const RowLayout& layout) {
  std::uint64_t tokens = 0;
  for (std::size_t i = 0; i < examples.size(); ++i) {
    const ExampleLengths lengths = examples.lengths(i);
    tokens += layout.source_length(lengths) + target_positions(layout.target_length(lengths));
  }
  return tokens;
}

double share_of_unknown_tokens(const Examples& examples, const RowLayout& layout) {
  std::size_t tokens = 0, unknown = 0;
  const auto count = [&](const std::vector<std::int32_t>& ids) {
    for (const std::int32_t id : ids) {
      unknown += id == unk_id ? 1 : 0;
      tokens += id == unk_id || id >= first_word_id ? 1 : 0;
    }
  };
  examples.for_each([&](const Example& example) {
    count(example.source);
    if (!layout.labels_are_classes) count(example.target);
  });
  return tokens == 0 ? 0.0 : static_cast<double>(unknown) / static_cast<double>(tokens);
}

namespace {

constexpr std::uint64_t percent_selected = 15;
constexpr std::uint64_t tenths_masked = 8, tenths_random = 1;

RandomDraws masking_draws(const BatchRules& rules, std::size_t example) {
  // The upper 32 bits of the key also hold the epoch, which stays far below 2^32.
  return {rules.seed + (rules.epoch << 32U), DrawPurpose::masking, example};
}

/// The positions of the tokens to predict, see mask_tokens().
std::vector<std::size_t> select_positions(std::span<const std::int32_t> tokens,
                                          RandomDraws& random) {
  std::vector<std::size_t> words, selected;
  const auto collect = [&](const auto& is_wanted) {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (is_wanted(tokens[i])) words.push_back(i);
    }
  };
  collect([](std::int32_t id) { return id >= first_word_id; });
  if (words.empty()) collect([](std::int32_t id) { return id == unk_id; });
  for (const std::size_t i : words) {
    if (random.below(100) < percent_selected) selected.push_back(i);
  }
  if (selected.empty() && !words.empty()) selected.push_back(words[random.below(words.size())]);
  return selected;
}

/// The input token at the position of a selected word.
std::int32_t masked_input(std::int32_t word, const BatchRules& rules, RandomDraws& random) {
  const std::uint64_t draw = random.below(10);
  if (draw < tenths_masked) return unk_id;
  if (draw >= tenths_masked + tenths_random) return word;
  return first_word_id + static_cast<std::int32_t>(random.below(rules.vocabulary - first_word_id));
}

}  // namespace

void mask_tokens(std::span<const std::int32_t> tokens, const BatchRules& rules, std::size_t example,
                 std::int32_t* input, std::int32_t* labels) {
  std::ranges::copy(tokens, input);
  std::fill_n(labels, tokens.size(), no_label);
  RandomDraws random = masking_draws(rules, example);
  for (const std::size_t i : select_positions(tokens, random)) {
    labels[i] = tokens[i];
    input[i] = masked_input(tokens[i], rules, random);
  }
}

}  // namespace tapestry
