// SPDX-License-Identifier: BSD-3-Clause
#include "data/batch_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "data/io/random.h"

namespace tapestry {

namespace {

constexpr std::size_t batches_per_chunk = 100;

/// Number of batches in a chunk: among examples with equally long longest sides, the examples of a
/// chunk are sorted by the difference of their sides. A larger number reduces the padding of the
/// shorter side, but batches then differ less between epochs. Measured on the
/// 29,000 pairs of Multi30k in batches of 4096 tokens: 6.4 % padding without sorting, 4.2 % with 8
/// batches, 3.6 % with 16 or more.
constexpr std::size_t batches_per_side_chunk = 8;

/// Number of examples whose lengths in an epoch are computed together. BPE-dropout takes 18 us for
/// a pair of Multi30k.
constexpr std::size_t examples_per_group = 32768;
constexpr std::size_t min_batches_per_group = 8;

void check_examples(const Examples& examples) {
  if (examples.empty()) {
    throw std::invalid_argument("batch schedule: found no examples, expected at least one");
  }
}

void check_batch_size(std::size_t batch_size) {
  if (batch_size == 0) {
    throw std::invalid_argument("batch schedule: found batch_size 0, expected at least 1");
  }
}

std::vector<std::size_t> all_indices(std::size_t count) {
  std::vector<std::size_t> indices(count);
  std::iota(indices.begin(), indices.end(), std::size_t{0});
  return indices;
}

/// Divides `order` into consecutive batches; the last may be shorter.
///
/// rows  (first index of a batch) -> number of rows of this batch
template <typename F>
std::vector<BatchIndices> divide(const std::vector<std::size_t>& order, F&& rows) {
  std::vector<BatchIndices> batches;
  for (auto begin = order.begin(); begin != order.end();) {
    const auto remaining = static_cast<std::size_t>(order.end() - begin);
    const auto end = begin + static_cast<std::ptrdiff_t>(std::min(rows(*begin), remaining));
    batches.emplace_back(begin, end);
    begin = end;
  }
  return batches;
}

/// Sorts indices by the length of the source, then of the target.
void sort_by_length(const Examples& examples, BatchIndices& indices) {
  std::stable_sort(indices.begin(), indices.end(), [&examples](std::size_t a, std::size_t b) {
    const auto lengths = [&examples](std::size_t i) {
      const ExampleLengths of = examples.lengths(i);
      return std::pair(of.source, of.target);
    };
    return lengths(a) < lengths(b);
  });
}

/// lengths  (index of an example) -> ExampleLengths
template <typename F>
BatchStatistics sum_sizes(const std::vector<BatchIndices>& batches, F&& lengths,
                          const RowLayout& layout) {
  BatchStatistics sum{.batches = batches.size()};
  for (const BatchIndices& batch : batches) {
    std::size_t source = 0, target = 0, source_tokens = 0, target_tokens = 0;
    for (const std::size_t example : batch) {
      const ExampleLengths of_example = lengths(example);
      const std::size_t source_length = layout.source_length(of_example);
      const std::size_t target_length = layout.target_length(of_example);
      source = std::max(source, source_length);
      target = std::max(target, target_length);
      source_tokens += source_length;
      target_tokens += target_length;
    }
    const bool has_target_tokens = target_positions(target) > 0;
    const std::size_t tokens = source_tokens + (has_target_tokens ? target_tokens : 0);
    const std::size_t positions = batch.size() * (source + target_positions(target));
    sum.examples += batch.size();
    sum.tokens += batch.size() * std::max(source, target);
    sum.positions += positions;
    sum.padding += positions - tokens;
  }
  return sum;
}

}  // namespace

BatchSchedule::BatchSchedule(const Examples& examples, std::size_t batch_size, std::uint64_t seed,
                             BatchLengths batch_lengths, LengthsInEpoch in_epoch)
    : batch_size_(batch_size), seed_(seed), batch_lengths_(batch_lengths) {
  check_batch_size(batch_size);
  check_examples(examples);
  lengths_.reserve(examples.size());
  for (std::size_t i = 0; i < examples.size(); ++i) {
    lengths_.push_back(row_lengths(examples.lengths(i)));
  }
  batches_per_epoch_ = (lengths_.size() - 1) / batch_size_ + 1;
  if (batch_lengths == BatchLengths::alike) in_epoch_ = std::move(in_epoch);
}

BatchSchedule::BatchSchedule(const Examples& examples, const BatchTokens& tokens,
                             std::uint64_t seed, LengthsInEpoch in_epoch)
    : layout_(tokens.layout),
      max_tokens_(tokens.max_tokens),
      seed_(seed),
      in_epoch_(std::move(in_epoch)) {
  check_examples(examples);
  lengths_.reserve(examples.size());
  for (std::size_t i = 0; i < examples.size(); ++i) {
    const ExampleLengths example = examples.lengths(i);
    const std::size_t longest = tapestry::longest_side(example, tokens.layout);
    if (longest > tokens.max_tokens) {
      throw std::invalid_argument(
          fmt::format("batch schedule: example {} has {} tokens, expected at most {} "
                      "(max_tokens)",
                      lengths_.size(), longest, tokens.max_tokens));
    }
    lengths_.push_back(row_lengths(example));
  }
  batches_per_epoch_ = epoch(0).size();
}

/// The lengths of the source and target rows of an example in a batch.
BatchSchedule::Lengths BatchSchedule::row_lengths(const ExampleLengths& example) const {
  const std::size_t source = layout_ ? layout_->source_length(example) : example.source;
  const std::size_t target = layout_ ? layout_->target_length(example) : example.target;
  // Rows longer than this are stored with this length, because no model accepts them.
  constexpr std::size_t max_length = std::numeric_limits<std::uint32_t>::max();
  return {.source = static_cast<std::uint32_t>(std::min(source, max_length)),
          .target = static_cast<std::uint32_t>(std::min(target, max_length))};
}

std::size_t BatchSchedule::batches_per_epoch() const { return batches_per_epoch_; }

const std::vector<BatchIndices>& BatchSchedule::epoch(std::uint64_t epoch) {
  if (planned_epoch_ != epoch) {
    plan_ = plan(epoch);
    planned_epoch_ = epoch;
  }
  return plan_;
}

const BatchIndices& BatchSchedule::at(BatchPosition position) {
  if (position.batch >= batches_per_epoch()) {
    throw std::out_of_range(fmt::format("batch schedule: found batch {}, expected less than {}",
                                        position.batch, batches_per_epoch()));
  }
  if (!in_epoch_) return epoch(position.epoch)[position.batch];
  const std::size_t place = position.batch % batches_per_group();
  const BatchPosition begin{position.epoch, position.batch - place};
  if (!group_ || group_->begin != begin) group_ = group_by_lengths_in_epoch(begin);
  return group_->batches[place];
}

BatchPosition BatchSchedule::after(BatchPosition position) const {
  if (position.batch + 1 < batches_per_epoch()) return {position.epoch, position.batch + 1};
  return {position.epoch + 1, 0};
}

std::vector<BatchIndices> BatchSchedule::plan(std::uint64_t epoch) const {
  RandomDraws random(seed_, DrawPurpose::batch_order, epoch);
  std::vector<std::size_t> order = all_indices(lengths_.size());
  shuffle(order, random);
  if (max_tokens_ != 0) {
    sort_by_longest_side(order, lengths_);
  } else if (batch_lengths_ == BatchLengths::alike) {
    sort_chunks(order);
  }
  std::vector<BatchIndices> batches = divide(order, [this](std::size_t first) {
    return max_tokens_ != 0 ? max_rows(lengths_[first].longest_side()) : batch_size_;
  });
  shuffle(batches, random);
  return batches;
}

void BatchSchedule::sort_chunks(std::vector<std::size_t>& order) const {
  const std::size_t chunk = std::min(batches_per_chunk, batches_per_epoch()) * batch_size_;
  const auto by_length = [this](std::size_t a, std::size_t b) { return lengths_[a] < lengths_[b]; };
  for (std::size_t begin = 0; begin < order.size(); begin += chunk) {
    const std::size_t end = std::min(begin + chunk, order.size());
    std::stable_sort(order.begin() + static_cast<std::ptrdiff_t>(begin),
                     order.begin() + static_cast<std::ptrdiff_t>(end), by_length);
  }
}

std::size_t BatchSchedule::max_rows(std::size_t longest_side) const {
  // Random segmentations may be longer than the stored examples.
  return std::max<std::size_t>(max_tokens_ / std::max<std::size_t>(longest_side, 1), 1);
}

void BatchSchedule::sort_by_longest_side(std::vector<std::size_t>& order,
                                         const std::vector<Lengths>& lengths) const {
  const auto side = [&](std::size_t example) { return lengths[example].longest_side(); };
  const auto difference = [&](std::size_t example) {
    return static_cast<std::ptrdiff_t>(lengths[example].source) -
           static_cast<std::ptrdiff_t>(lengths[example].target);
  };
  std::ranges::stable_sort(order, std::ranges::greater(), side);
  for (auto begin = order.begin(); begin != order.end();) {
    const std::size_t longest = side(*begin);
    const auto end_of_side =
        std::find_if(begin, order.end(), [&](std::size_t i) { return side(i) != longest; });
    const std::size_t chunk = std::min(batches_per_side_chunk * max_rows(longest), order.size());
    while (begin != end_of_side) {
      const auto remaining = static_cast<std::size_t>(end_of_side - begin);
      const auto end = begin + static_cast<std::ptrdiff_t>(std::min(chunk, remaining));
      std::ranges::stable_sort(begin, end, std::ranges::less(), difference);
      begin = end;
    }
  }
}

std::size_t BatchSchedule::batches_per_group() const {
  const std::size_t examples_per_batch = (lengths_.size() - 1) / batches_per_epoch() + 1;
  return std::clamp(examples_per_group / examples_per_batch, min_batches_per_group,
                    batches_per_chunk);
}

BatchSchedule::Group BatchSchedule::group_by_lengths_in_epoch(BatchPosition begin) {
  const std::vector<BatchIndices>& stored = epoch(begin.epoch);
  const auto first = stored.begin() + static_cast<std::ptrdiff_t>(begin.batch);
  Group group{.begin = begin,
              .batches = {first, first + static_cast<std::ptrdiff_t>(std::min(
                                             batches_per_group(), stored.size() - begin.batch))}};

  std::vector<std::size_t> order;
  in_group_.resize(lengths_.size());
  for (const BatchIndices& batch : group.batches) {
    for (const std::size_t example : batch) {
      order.push_back(example);
      in_group_[example] = row_lengths(in_epoch_(example, begin.epoch));
    }
  }
  if (max_tokens_ != 0) {
    sort_by_longest_side(order, in_group_);
  } else {
    std::ranges::stable_sort(order, std::ranges::greater(),
                             [this](std::size_t example) { return in_group_[example]; });
  }

  // Puts the longest examples into the batches with the longest stored lengths, so that the order
  // of long and short batches stays random.
  const auto size = [this](const BatchIndices& batch) {
    std::size_t tokens = 0;
    for (const std::size_t i : batch) tokens += lengths_[i].source + lengths_[i].target;
    return std::pair(batch.size(), -static_cast<std::ptrdiff_t>(tokens));
  };
  std::vector<std::size_t> places = all_indices(group.batches.size());
  std::ranges::stable_sort(places, std::ranges::less(),
                           [&](std::size_t place) { return size(group.batches[place]); });
  auto next = order.begin();
  for (const std::size_t place : places) {
    for (std::size_t& example : group.batches[place]) example = *next++;
  }
  return group;
}

BatchStatistics BatchSchedule::measure(std::uint64_t epoch, const Examples& examples,
                                       const RowLayout& layout) {
  if (!in_epoch_) return measure_batches(this->epoch(epoch), examples, layout);
  const Group first = group_by_lengths_in_epoch({.epoch = epoch, .batch = 0});
  const auto lengths = [&](std::size_t example) { return in_epoch_(example, epoch); };
  BatchStatistics sum = sum_sizes(first.batches, lengths, layout);
  const double factor = static_cast<double>(lengths_.size()) / static_cast<double>(sum.examples);
  for (std::uint64_t* count : {&sum.tokens, &sum.positions, &sum.padding}) {
    *count = static_cast<std::uint64_t>(std::llround(factor * static_cast<double>(*count)));
  }
  sum.batches = batches_per_epoch();
  sum.examples = lengths_.size();
  return sum;
}

BatchStatistics measure_batches(const std::vector<BatchIndices>& batches, const Examples& examples,
                                const RowLayout& layout) {
  return sum_sizes(
      batches, [&](std::size_t example) { return examples.lengths(example); }, layout);
}

std::vector<BatchIndices> evaluation_batches(const Examples& examples, std::size_t batch_size) {
  check_batch_size(batch_size);
  BatchIndices indices = all_indices(examples.size());
  sort_by_length(examples, indices);
  return divide(indices, [batch_size](std::size_t) { return batch_size; });
}

BatchLimit full_batch_limit(const Examples& examples, std::size_t batch_size,
                            const RowLayout& layout) {
  std::size_t source = 0, target = 0;
  for (std::size_t i = 0; i < examples.size(); ++i) {
    const ExampleLengths lengths = examples.lengths(i);
    source = std::max(source, layout.source_length(lengths));
    target = std::max(target, layout.target_length(lengths));
  }
  const std::size_t rows = std::min(batch_size, examples.size());
  return {.rows = rows, .source = rows * source, .target = rows * target};
}

std::vector<BatchIndices> evaluation_batches(const Examples& examples, BatchIndices indices,
                                             const BatchLimit& limit, const RowLayout& layout) {
  check_batch_size(limit.rows);
  sort_by_length(examples, indices);
  std::vector<BatchIndices> batches;
  std::size_t source = 0, target = 0;
  for (const std::size_t i : indices) {
    const ExampleLengths lengths = examples.lengths(i);
    source = std::max(source, layout.source_length(lengths));
    target = std::max(target, layout.target_length(lengths));
    const std::size_t rows = batches.empty() ? 1 : batches.back().size() + 1;
    const bool fits =
        rows <= limit.rows && rows * source <= limit.source && rows * target <= limit.target;
    if (batches.empty() || !fits) {
      batches.emplace_back();
      source = layout.source_length(lengths);
      target = layout.target_length(lengths);
    }
    batches.back().push_back(i);
  }
  return batches;
}

DataLoader::DataLoader(std::size_t num_examples, const DataLoaderOptions& options)
    : num_examples_(num_examples), options_(options) {
  constexpr auto max_examples = static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max());
  if (num_examples == 0 || num_examples > max_examples) {
    throw std::invalid_argument(
        fmt::format("DataLoader: found {} examples, expected 1 to {}", num_examples, max_examples));
  }
  if (options.batch_size == 0) {
    throw std::invalid_argument("DataLoader: batch_size is 0, expected at least 1");
  }
}

std::size_t DataLoader::batches_per_epoch() const {
  const std::size_t full = num_examples_ / options_.batch_size;
  return full + (num_examples_ % options_.batch_size != 0 && !options_.drop_last ? 1 : 0);
}

std::vector<std::vector<std::int32_t>> DataLoader::epoch(std::uint64_t epoch,
                                                         std::size_t first_batch) const {
  std::vector<std::int32_t> order(num_examples_);
  std::iota(order.begin(), order.end(), 0);
  if (options_.shuffle) {
    RandomDraws random(options_.seed, DrawPurpose::batch_order, epoch);
    shuffle(order, random);
  }
  std::vector<std::vector<std::int32_t>> batches;
  for (std::size_t batch = first_batch; batch < batches_per_epoch(); ++batch) {
    const std::size_t begin = batch * options_.batch_size;
    const std::size_t end = std::min(begin + options_.batch_size, num_examples_);
    batches.emplace_back(order.begin() + static_cast<std::ptrdiff_t>(begin),
                         order.begin() + static_cast<std::ptrdiff_t>(end));
  }
  return batches;
}

}  // namespace tapestry
