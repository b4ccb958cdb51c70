#include "data/data_loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "data/random.h"

namespace tapestry {

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
