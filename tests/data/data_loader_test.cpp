#include "data/batch_schedule.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

namespace tapestry {
namespace {

using Batches = std::vector<std::vector<std::int32_t>>;

std::vector<std::int32_t> joined(const Batches& batches) {
  std::vector<std::int32_t> all;
  for (const auto& batch : batches) all.insert(all.end(), batch.begin(), batch.end());
  return all;
}

TEST_CASE("without shuffling, batches have the examples in order, and the last one is smaller") {
  const DataLoader loader(5, {.batch_size = 2, .shuffle = false});
  CHECK(loader.batches_per_epoch() == 3);
  CHECK(loader.epoch(0) == Batches{{0, 1}, {2, 3}, {4}});
  CHECK(loader.epoch(7) == loader.epoch(0));
}

TEST_CASE("the last batch is dropped on request if it is smaller") {
  const DataLoader five(5, {.batch_size = 2, .shuffle = false, .drop_last = true});
  CHECK(five.batches_per_epoch() == 2);
  CHECK(five.epoch(0) == Batches{{0, 1}, {2, 3}});
  const DataLoader four(4, {.batch_size = 2, .drop_last = true});
  CHECK(four.batches_per_epoch() == 2);
  CHECK(DataLoader(1, {.batch_size = 2, .drop_last = true}).epoch(0).empty());
}

TEST_CASE("each epoch has every example once, in a different order") {
  const DataLoader loader(100, {.batch_size = 7});
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<std::int32_t> all = joined(loader.epoch(epoch));
    CHECK_FALSE(std::ranges::is_sorted(all));
    std::ranges::sort(all);
    REQUIRE(all.size() == 100);
    for (std::int32_t i = 0; i < 100; ++i) CHECK(all[static_cast<std::size_t>(i)] == i);
  }
  CHECK(loader.epoch(0) != loader.epoch(1));
}

TEST_CASE("the order depends on seed and epoch only, so that a run can be resumed") {
  const DataLoaderOptions options{.batch_size = 7, .seed = 3};
  const Batches whole = DataLoader(100, options).epoch(4);
  const Batches rest = DataLoader(100, options).epoch(4, 10);
  CHECK(rest == Batches(whole.begin() + 10, whole.end()));
  CHECK(DataLoader(100, {.batch_size = 7, .seed = 4}).epoch(4) != whole);
  CHECK(DataLoader(100, options).epoch(4, 15).empty());
}

TEST_CASE("0 examples, and batches of 0, are refused") {
  CHECK_THROWS_WITH_AS(DataLoader(0), "DataLoader: found 0 examples, expected 1 to 2147483647",
                       std::invalid_argument);
  CHECK_THROWS_AS(DataLoader(std::size_t{1} << 31), std::invalid_argument);
  CHECK_THROWS_WITH_AS(DataLoader(1, {.batch_size = 0}),
                       "DataLoader: batch_size is 0, expected at least 1", std::invalid_argument);
}

}  // namespace
}  // namespace tapestry
