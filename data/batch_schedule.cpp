#include "data/batch_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "data/random.h"

namespace tapestry {

namespace {

constexpr std::size_t batches_per_chunk = 100;

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

/// Divides `order` into consecutive batches of batch_size indices; the last may be shorter.
std::vector<BatchIndices> cut(const std::vector<std::size_t>& order, std::size_t batch_size) {
  std::vector<BatchIndices> batches;
  for (auto begin = order.begin(); begin != order.end();) {
    const auto remaining = static_cast<std::size_t>(order.end() - begin);
    const auto end = begin + static_cast<std::ptrdiff_t>(std::min(batch_size, remaining));
    batches.emplace_back(begin, end);
    begin = end;
  }
  return batches;
}

}  // namespace

BatchSchedule::BatchSchedule(const std::vector<Example>& examples, std::size_t batch_size,
                             std::uint64_t seed, BatchLengths batch_lengths)
    : batch_size_(batch_size), seed_(seed), batch_lengths_(batch_lengths) {
  check_batch_size(batch_size);
  if (examples.empty()) {
    throw std::invalid_argument("batch schedule: found no sentence pairs, expected at least one");
  }
  lengths_.reserve(examples.size());
  for (const Example& example : examples) {
    lengths_.push_back({example.source.size(), example.target.size()});
  }
}

std::size_t BatchSchedule::batches_per_epoch() const {
  return (lengths_.size() - 1) / batch_size_ + 1;
}

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
  return epoch(position.epoch)[position.batch];
}

BatchPosition BatchSchedule::after(BatchPosition position) const {
  if (position.batch + 1 < batches_per_epoch()) return {position.epoch, position.batch + 1};
  return {position.epoch + 1, 0};
}

std::vector<BatchIndices> BatchSchedule::plan(std::uint64_t epoch) const {
  RandomDraws random(seed_, DrawPurpose::batch_order, epoch);
  std::vector<std::size_t> order = all_indices(lengths_.size());
  shuffle(order, random);
  if (batch_lengths_ == BatchLengths::alike) sort_chunks(order);
  std::vector<BatchIndices> batches = cut(order, batch_size_);
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

std::vector<BatchIndices> evaluation_batches(const std::vector<Example>& examples,
                                             std::size_t batch_size) {
  check_batch_size(batch_size);
  std::vector<std::size_t> order = all_indices(examples.size());
  std::stable_sort(order.begin(), order.end(), [&examples](std::size_t a, std::size_t b) {
    const auto lengths = [&examples](std::size_t i) {
      return std::pair(examples[i].source.size(), examples[i].target.size());
    };
    return lengths(a) < lengths(b);
  });
  return cut(order, batch_size);
}

DataLoader::DataLoader(std::size_t num_examples, const DataLoaderOptions& options)
    : num_examples_(num_examples), options_(options) {
  constexpr auto most = static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max());
  if (num_examples == 0 || num_examples > most) {
    throw std::invalid_argument(
        fmt::format("DataLoader: found {} examples, expected 1 to {}", num_examples, most));
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
