#include "data/batch_schedule.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <stdexcept>

#include "data/io/file.h"
#include "data/random.h"

using namespace tapestry;

namespace {

/// Pairs with random lengths from 1 to 16 on each side.
std::vector<Example> random_pairs(std::size_t count) {
  RandomDraws random(1, DrawPurpose::training_example, 0);
  std::vector<Example> pairs(count);
  for (Example& pair : pairs) {
    pair.source.resize(1 + random.below(16), first_word_id);
    pair.target.resize(1 + random.below(16), first_word_id);
  }
  return pairs;
}

std::vector<Example> pairs_of_lengths(const std::vector<std::size_t>& lengths) {
  std::vector<Example> pairs;
  for (const std::size_t length : lengths) pairs.push_back({std::vector<std::int32_t>(length), {}});
  return pairs;
}

/// Whether 0, 1, ..., count - 1 each occur once.
bool covers_all(const std::vector<BatchIndices>& batches, std::size_t count) {
  std::vector<std::size_t> seen;
  for (const BatchIndices& batch : batches) seen.insert(seen.end(), batch.begin(), batch.end());
  std::sort(seen.begin(), seen.end());
  if (seen.size() != count) return false;
  for (std::size_t i = 0; i < count; ++i) {
    if (seen[i] != i) return false;
  }
  return true;
}

/// Share of source positions that are padding.
double padding(const std::vector<Example>& pairs, const std::vector<BatchIndices>& batches) {
  double real = 0, padded = 0;
  for (const BatchIndices& batch : batches) {
    std::size_t longest = 0;
    for (const std::size_t i : batch) {
      longest = std::max(longest, pairs[i].source.size());
      real += static_cast<double>(pairs[i].source.size());
    }
    padded += static_cast<double>(longest * batch.size());
  }
  return 1 - real / padded;
}

}  // namespace

TEST_CASE("lengths are mixed where that is asked for, and each pair still comes once") {
  const std::vector<Example> pairs = random_pairs(1000);
  const auto spread = [&](BatchLengths lengths) {
    BatchSchedule schedule(pairs, 10, 1, lengths);
    std::size_t sum = 0;
    for (const BatchIndices& batch : schedule.epoch(0)) {
      std::size_t least = pairs[batch.front()].source.size(), most = least;
      for (const std::size_t i : batch) {
        least = std::min(least, pairs[i].source.size());
        most = std::max(most, pairs[i].source.size());
      }
      sum += most - least;
    }
    return sum;
  };
  CHECK(spread(BatchLengths::mixed) > 5 * spread(BatchLengths::alike));
  BatchSchedule schedule(pairs, 10, 1, BatchLengths::mixed);
  std::vector<std::size_t> all;
  for (const BatchIndices& batch : schedule.epoch(0)) {
    all.insert(all.end(), batch.begin(), batch.end());
  }
  std::ranges::sort(all);
  for (std::size_t i = 0; i < pairs.size(); ++i) CHECK(all[i] == i);
}

TEST_CASE("an epoch holds every pair once, in full batches but for one") {
  BatchSchedule schedule(random_pairs(1003), 10, 1);
  CHECK(schedule.batches_per_epoch() == 101);
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    const std::vector<BatchIndices>& batches = schedule.epoch(epoch);
    CHECK(batches.size() == 101);
    CHECK(covers_all(batches, 1003));
    CHECK(std::count_if(batches.begin(), batches.end(),
                        [](const BatchIndices& b) { return b.size() == 10; }) == 100);
  }
}

TEST_CASE("the order is a function of seed and epoch alone") {
  const std::vector<Example> pairs = random_pairs(500);
  BatchSchedule walked(pairs, 8, 1), jumped(pairs, 8, 1), other_seed(pairs, 8, 2);
  const auto first = walked.epoch(0);
  const auto second = walked.epoch(1);
  CHECK(jumped.epoch(1) == second);
  CHECK(jumped.epoch(0) == first);
  CHECK(first != second);
  CHECK(other_seed.epoch(0) != first);
}

TEST_CASE("pairs meet other pairs in other epochs") {
  BatchSchedule schedule(std::vector<Example>(100, Example{{4}, {4}}), 10, 1);
  const auto neighbours = [&](std::uint64_t epoch) {
    BatchIndices found;
    for (const BatchIndices& batch : schedule.epoch(epoch)) {
      if (std::count(batch.begin(), batch.end(), 0u) > 0) found = batch;
    }
    std::sort(found.begin(), found.end());
    return found;
  };
  CHECK(neighbours(0) != neighbours(1));
}

TEST_CASE("batches have little padding") {
  const std::vector<Example> pairs = random_pairs(5000);
  BatchSchedule schedule(pairs, 25, 1);
  CHECK(padding(pairs, schedule.epoch(0)) < 0.05);
}

TEST_CASE("batches come in no order of length") {
  const std::vector<Example> pairs = random_pairs(2000);
  BatchSchedule schedule(pairs, 20, 1);
  int rises = 0;
  const std::vector<BatchIndices>& batches = schedule.epoch(0);
  for (std::size_t b = 1; b < batches.size(); ++b) {
    rises += pairs[batches[b][0]].source.size() > pairs[batches[b - 1][0]].source.size();
  }
  CHECK(rises > 30);
  CHECK(rises < 70);
}

TEST_CASE("a position finds its batch, and the last one is followed by the next epoch") {
  BatchSchedule schedule(random_pairs(25), 10, 1);
  const auto second_epoch = schedule.epoch(1);
  CHECK(schedule.at({1, 2}) == second_epoch[2]);
  CHECK(schedule.after({0, 0}) == BatchPosition{0, 1});
  CHECK(schedule.after({0, 2}) == BatchPosition{1, 0});
  CHECK_THROWS_WITH_AS(schedule.at({0, 3}), "batch schedule: found batch 3, expected less than 3",
                       std::out_of_range);
}

TEST_CASE("the plan of an epoch is made once") {
  BatchSchedule schedule(random_pairs(25), 10, 1);
  const BatchIndices* first = &schedule.at({0, 0});
  const std::size_t* memory = first->data();
  CHECK(&schedule.at({0, 1}) == first + 1);
  CHECK(schedule.at({0, 0}).data() == memory);
}

TEST_CASE("a batch larger than the data takes all of it") {
  BatchSchedule schedule(random_pairs(3), 1000, 1);
  CHECK(schedule.batches_per_epoch() == 1);
  CHECK(covers_all(schedule.epoch(0), 3));
  BatchSchedule huge(random_pairs(3), static_cast<std::size_t>(-1), 1);
  CHECK(covers_all(huge.epoch(0), 3));
}

TEST_CASE("a schedule of nothing, or of empty batches, is refused") {
  CHECK_THROWS_AS(BatchSchedule({}, 1, 1), std::invalid_argument);
  CHECK_THROWS_AS(BatchSchedule(random_pairs(3), 0, 1), std::invalid_argument);
  CHECK_THROWS_AS(evaluation_batches(random_pairs(3), 0), std::invalid_argument);
}

TEST_CASE("evaluation goes through all pairs once by rising length") {
  CHECK(evaluation_batches(pairs_of_lengths({3, 1, 2, 1, 5}), 2) ==
        std::vector<BatchIndices>{{1, 3}, {2, 0}, {4}});
  CHECK(evaluation_batches({}, 2).empty());
  const std::vector<Example> pairs = {{{4}, {4, 5, 6}}, {{4, 5}, {4}}, {{4}, {4, 5}}, {{4}, {4}}};
  CHECK(evaluation_batches(pairs, 3) == std::vector<BatchIndices>{{3, 2, 0}, {1}});
}

TEST_CASE("the order of batches never changes: runs must resume after an update of the program") {
  const auto digest = [](BatchLengths lengths) {
    BatchSchedule schedule(random_pairs(2503), 10, 7, lengths);
    Xxh3 hash;
    for (std::uint64_t epoch : {0, 5}) {
      for (const BatchIndices& batch : schedule.epoch(epoch)) {
        for (const std::uint64_t index : batch) hash.add(&index, sizeof(index));
      }
    }
    return hash.value();
  };
  CHECK(digest(BatchLengths::alike) == 2558904658660153732u);
  CHECK(digest(BatchLengths::mixed) == 6583390298696190269u);
}
