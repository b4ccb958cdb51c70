// SPDX-License-Identifier: BSD-3-Clause
#include "data/batch_schedule.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <iterator>
#include <new>
#include <numeric>
#include <stdexcept>
#include <utility>
#include <vector>

#include "data/io/file.h"
#include "data/io/random.h"

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
bool covers_all(const auto& batches, std::size_t count) {
  std::vector<std::size_t> seen;
  for (const auto& batch : batches) seen.insert(seen.end(), batch.begin(), batch.end());
  std::ranges::sort(seen);
  std::vector<std::size_t> all(count);
  std::iota(all.begin(), all.end(), std::size_t{0});
  return seen == all;
}

/// The number of rows and the longest side of a batch.
using Shape = std::pair<std::size_t, std::size_t>;

std::vector<Shape> batch_shapes(const std::vector<Example>& pairs,
                                const std::vector<BatchIndices>& batches) {
  std::vector<Shape> shapes;
  for (const BatchIndices& batch : batches) {
    std::size_t longest = 0;
    for (const std::size_t i : batch)
      longest = std::max(longest, longest_side(pairs[i], pair_rows));
    shapes.emplace_back(batch.size(), longest);
  }
  return shapes;
}

/// The lengths of `pairs` in an epoch, with 0 to 9 additional tokens on each side.
LengthsInEpoch longer_in_epoch(const std::vector<Example>& pairs) {
  return [&pairs](std::size_t example, std::uint64_t epoch) {
    RandomDraws random(epoch, DrawPurpose::subword_segmentation, example);
    const std::size_t source = pairs[example].source.size() + random.below(10);
    return ExampleLengths(source, pairs[example].target.size() + random.below(10), 0);
  };
}

/// The pairs with their lengths in an epoch.
std::vector<Example> pairs_in_epoch(const std::vector<Example>& pairs, std::uint64_t epoch) {
  std::vector<Example> longer(pairs.size());
  const LengthsInEpoch lengths = longer_in_epoch(pairs);
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    longer[i].source.resize(lengths(i, epoch).source);
    longer[i].target.resize(lengths(i, epoch).target);
  }
  return longer;
}

std::vector<BatchIndices> batches_at(BatchSchedule& schedule, std::uint64_t epoch) {
  std::vector<BatchIndices> batches;
  for (std::size_t b = 0; b < schedule.batches_per_epoch(); ++b) {
    batches.push_back(schedule.at({epoch, b}));
  }
  return batches;
}

double padding_share(const std::vector<BatchIndices>& batches, const std::vector<Example>& pairs) {
  const BatchStatistics sizes = measure_batches(batches, pairs, pair_rows);
  return static_cast<double>(sizes.padding) / static_cast<double>(sizes.positions);
}

/// The share of batches whose longest side is longer than in the preceding batch.
double share_of_rises(const std::vector<Example>& pairs, const std::vector<BatchIndices>& batches) {
  std::size_t rises = 0;
  const std::vector<Shape> shapes = batch_shapes(pairs, batches);
  for (std::size_t b = 1; b < shapes.size(); ++b) {
    rises += shapes[b].second > shapes[b - 1].second ? 1 : 0;
  }
  return static_cast<double>(rises) / static_cast<double>(shapes.size());
}

}  // namespace

TEST_CASE("an epoch contains every pair once, and all batches except one are full") {
  for (const BatchLengths lengths : {BatchLengths::alike, BatchLengths::mixed}) {
    BatchSchedule schedule(random_pairs(1003), 10, 1, lengths);
    CHECK(schedule.batches_per_epoch() == 101);
    for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
      const std::vector<BatchIndices>& batches = schedule.epoch(epoch);
      CHECK(batches.size() == 101);
      CHECK(covers_all(batches, 1003));
      CHECK(std::ranges::count(batches, 10U, &BatchIndices::size) == 100);
    }
  }
  for (const std::size_t rows : {std::size_t{1000}, static_cast<std::size_t>(-1)}) {
    BatchSchedule single(random_pairs(3), rows, 1);
    CHECK(single.batches_per_epoch() == 1);
    CHECK(covers_all(single.epoch(0), 3));
  }
}

TEST_CASE("the order of batches depends only on seed and epoch") {
  const std::vector<Example> pairs = random_pairs(500);
  const auto check = [&](const auto& make) {
    BatchSchedule walked = make(1), jumped = make(1), other_seed = make(2);
    const auto first = walked.epoch(0), second = walked.epoch(1);
    CHECK(jumped.epoch(1) == second);
    CHECK(jumped.epoch(0) == first);
    CHECK(first != second);
    CHECK(other_seed.epoch(0) != first);
    CHECK(walked.at({1, 2}) == second[2]);
  };
  check([&](std::uint64_t seed) { return BatchSchedule(pairs, 8, seed); });
  check([&](std::uint64_t seed) { return BatchSchedule(pairs, BatchTokens{64}, seed); });
}

TEST_CASE(
    "at() returns the batch at a position, and after() returns the next position, possibly in the "
    "next epoch") {
  BatchSchedule schedule(random_pairs(25), 10, 1);
  CHECK(schedule.after({0, 0}) == BatchPosition{0, 1});
  CHECK(schedule.after({0, 2}) == BatchPosition{1, 0});
  const BatchIndices* first = &schedule.at({0, 0});
  CHECK(&schedule.at({0, 1}) == first + 1);  // the batches of an epoch are cached
}

TEST_CASE(
    "schedules without examples, with batch size 0 or without room for an example are rejected") {
  const std::vector<Example> pairs = pairs_of_lengths({3, 6, 2});
  CHECK_THROWS_AS(BatchSchedule({}, 1, 1), std::invalid_argument);
  CHECK_THROWS_AS(BatchSchedule(pairs, 0, 1), std::invalid_argument);
  CHECK_THROWS_AS(evaluation_batches(pairs, 0), std::invalid_argument);
  CHECK_NOTHROW(BatchSchedule(pairs, BatchTokens{7}, 1));
  CHECK_THROWS_AS(BatchSchedule(pairs, BatchTokens{6}, 1), std::invalid_argument);
  CHECK_THROWS_AS(BatchSchedule({}, BatchTokens{6}, 1), std::invalid_argument);
  CHECK_THROWS_AS(BatchSchedule(pairs, 1, 1).at({0, 3}), std::out_of_range);
}

TEST_CASE("batches limited by tokens contain every pair once, and as many rows as fit") {
  const std::vector<Example> pairs = random_pairs(1003);
  for (const std::size_t most : {17, 18, 40, 333, 20'000}) {
    CAPTURE(most);
    BatchSchedule schedule(pairs, BatchTokens{most}, 1);
    for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
      const std::vector<BatchIndices>& batches = schedule.epoch(epoch);
      CHECK(batches.size() == schedule.batches_per_epoch());
      CHECK(covers_all(batches, pairs.size()));
      std::size_t smaller = 0;
      for (const auto& [rows, longest] : batch_shapes(pairs, batches)) {
        CHECK(rows * longest <= most);
        smaller += (rows + 1) * longest <= most ? 1 : 0;
      }
      CHECK(smaller <= 1);  // only a batch of the shortest pairs has room for another row
    }
  }
}

TEST_CASE("a limit on tokens counts the longest side with <eos>") {
  // Longest sides with <eos>: 3, 6, 3, 2, 3, 2.
  const std::vector<Example> pairs = {{{4, 4}, {4}}, {{4}, {4, 4, 4, 4, 4}}, {{4}, {4, 4}},
                                      {{4}, {}},     {{4, 4}, {4, 4}},       {{}, {4}}};
  BatchSchedule schedule(pairs, BatchTokens{6}, 1);
  CHECK(schedule.batches_per_epoch() == 4);
  std::vector<Shape> shapes = batch_shapes(pairs, schedule.epoch(3));
  std::ranges::sort(shapes);
  CHECK(shapes == std::vector<Shape>{{1, 2}, {1, 6}, {2, 3}, {2, 3}});
  CHECK(schedule.after({0, 3}) == BatchPosition{1, 0});

  // The length of a classifier's row is the length of the sentence with <eos>.
  BatchSchedule classes(pairs, {.max_tokens = 6, .layout = class_rows}, 1);
  CHECK(classes.batches_per_epoch() == 3);  // lengths (3, 3), (2, 2, 2) and (1)
}

TEST_CASE(
    "batches have little padding on both sides, and their pairs and order differ between epochs") {
  const std::vector<Example> pairs = random_pairs(20'000);
  const auto sorted = [](std::vector<BatchIndices> batches) {
    for (BatchIndices& batch : batches) std::ranges::sort(batch);
    std::ranges::sort(batches);
    return batches;
  };
  std::vector<BatchSchedule> schedules;
  schedules.emplace_back(pairs, 25, 1);
  schedules.emplace_back(pairs, BatchTokens{512}, 1);
  BatchSchedule mixed(pairs, 25, 1, BatchLengths::mixed);
  CHECK(padding_share(mixed.epoch(0), pairs) > 0.3);
  for (BatchSchedule& schedule : schedules) {
    const std::vector<BatchIndices> first = schedule.epoch(0), second = schedule.epoch(1);
    // Without sorting by the difference between the sides, the share would be 22 %, since the
    // lengths of the sides are independent.
    CHECK(padding_share(first, pairs) < 0.12);
    CHECK(share_of_rises(pairs, first) > 1.0 / 3);
    CHECK(share_of_rises(pairs, first) < 2.0 / 3);
    std::vector<BatchIndices> common;
    std::ranges::set_intersection(sorted(first), sorted(second), std::back_inserter(common));
    CHECK(common.size() < first.size() / 20);
  }
  const std::vector<BatchIndices> first = schedules[1].epoch(0), second = schedules[1].epoch(1);
  CHECK(batch_shapes(pairs, first) != batch_shapes(pairs, second));
  CHECK(std::ranges::is_permutation(batch_shapes(pairs, first), batch_shapes(pairs, second)));
  const BatchStatistics sizes = measure_batches(first, pairs, pair_rows);
  CHECK(static_cast<double>(sizes.tokens) / static_cast<double>(sizes.batches) > 0.97 * 512);
}

TEST_CASE("examples that an epoch makes longer than max_tokens are each in exactly one batch") {
  const std::vector<Example> pairs(50, Example{{5, 6}, {5, 6}});
  BatchSchedule schedule(pairs, BatchTokens{5}, 1, longer_in_epoch(pairs));
  std::vector<BatchIndices> batches;
  for (std::size_t i = 0; i < schedule.batches_per_epoch(); ++i) {
    batches.push_back(schedule.at({.epoch = 0, .batch = i}));
  }
  CHECK(covers_all(batches, pairs.size()));
}

TEST_CASE(
    "if lengths vary between epochs, batches have little padding and the same numbers of rows") {
  const std::vector<Example> pairs = random_pairs(20'003);
  const LengthsInEpoch in_epoch = longer_in_epoch(pairs);
  const auto schedules = [&] {
    std::vector<BatchSchedule> both;
    both.emplace_back(pairs, 20, 1, BatchLengths::alike, in_epoch);
    both.emplace_back(pairs, BatchTokens{512}, 1, in_epoch);
    return both;
  };
  std::vector<BatchSchedule> walked = schedules(), jumped = schedules();
  for (std::size_t kind = 0; kind < walked.size(); ++kind) {
    for (const std::uint64_t epoch : {0, 1, 5}) {
      CAPTURE(kind);
      CAPTURE(epoch);
      const std::vector<BatchIndices> stored = walked[kind].epoch(epoch);
      const std::vector<BatchIndices> batches = batches_at(walked[kind], epoch);
      CHECK(covers_all(batches, pairs.size()));
      CHECK(std::ranges::equal(batches, stored, {}, &BatchIndices::size, &BatchIndices::size));
      const std::vector<Example> longer = pairs_in_epoch(pairs, epoch);
      CHECK(padding_share(batches, longer) < 0.6 * padding_share(stored, longer));
      const BatchStatistics sizes = measure_batches(batches, longer, pair_rows);
      const BatchStatistics estimate = jumped[kind].measure(epoch, pairs, pair_rows);
      CHECK(estimate.batches == sizes.batches);
      CHECK(estimate.examples == sizes.examples);
      CHECK(static_cast<double>(estimate.tokens) ==
            doctest::Approx(static_cast<double>(sizes.tokens)).epsilon(0.05));
      CHECK(static_cast<double>(estimate.padding) / static_cast<double>(estimate.positions) ==
            doctest::Approx(padding_share(batches, longer)).epsilon(0.1));
      CHECK(share_of_rises(longer, batches) > 0.3);
      CHECK(share_of_rises(longer, batches) < 0.6);
      // Resuming in the middle of an epoch gives the same batch.
      CHECK(jumped[kind].at({epoch, 333}) == batches[333]);
    }
  }
  BatchSchedule mixed(pairs, 20, 1, BatchLengths::mixed, in_epoch);
  CHECK(batches_at(mixed, 1) == mixed.epoch(1));
}

TEST_CASE("lengths in an epoch are computed one group at a time, and recomputed after an error") {
  const std::vector<Example> pairs = random_pairs(1000);
  std::size_t calls = 0, fail_at = 250;
  const auto in_epoch = [&](std::size_t example, std::uint64_t) -> ExampleLengths {
    if (++calls == fail_at) throw std::bad_alloc();
    return pairs[example];
  };
  BatchSchedule schedule(pairs, 4, 1, BatchLengths::alike, in_epoch);
  CHECK(calls == 0);
  CHECK_THROWS_AS(schedule.at({0, 3}), std::bad_alloc);
  CHECK(schedule.at({0, 3}).size() == 4);
  CHECK(calls == 250 + 400);
  for (const std::size_t batch : {0, 99}) schedule.at({0, batch});
  CHECK(calls == 250 + 400);
  schedule.at({0, 249});  // the last group has 50 batches, up to batch 249
  CHECK(calls == 250 + 600);
  schedule.at({1, 249});
  CHECK(calls == 250 + 800);

  // With batches of 1000 examples, a group has 32 of the 40 batches.
  const std::vector<Example> many = random_pairs(40'000);
  std::size_t calls_of_many = 0;
  const auto count = [&](std::size_t example, std::uint64_t) -> ExampleLengths {
    ++calls_of_many;
    return many[example];
  };
  BatchSchedule(many, 1000, 1, BatchLengths::alike, count).at({0, 0});
  CHECK(calls_of_many == 32'000);

  // With 3 batches per epoch, a group contains all batches, because a group has at least 8 batches.
  BatchSchedule large(pairs, 334, 1, BatchLengths::alike, in_epoch);
  large.at({0, 0});
  CHECK(calls == 250 + 800 + 1000);
}

TEST_CASE("the sizes of batches include <eos> and the padding of both sides") {
  const std::vector<Example> pairs = {{{4, 4}, {4}}, {{4}, {4, 4, 4, 4, 4}}, {{4}, {4, 4}}};
  const BatchStatistics sizes = measure_batches({{0, 1}, {2}}, pairs, pair_rows);
  CHECK(sizes.batches == 2);
  CHECK(sizes.examples == 3);
  CHECK(sizes.tokens == 2 * 6 + 3);
  CHECK(sizes.positions == 2 * (3 + 6) + (2 + 3));
  CHECK(sizes.padding == 1 + 4);

  // The single label of a classifier is not a token position.
  const std::vector<Example> labelled = {{{4, 4}, {4}}, {{4}, {5}}};
  const BatchStatistics of_classes = measure_batches({{0, 1}}, labelled, class_rows);
  CHECK(of_classes.positions == 2 * 3);  // <eos> is a token
  CHECK(of_classes.padding == 1);
  std::vector<Example> images(2);
  for (Example& image : images) image = {.target = {4}, .pixels = {0.5F}};
  CHECK(measure_batches({{0, 1}}, images, class_rows).positions == 0);
}

TEST_CASE("evaluation batches contain every pair once, in order of increasing length") {
  CHECK(evaluation_batches(pairs_of_lengths({3, 1, 2, 1, 5}), 2) ==
        std::vector<BatchIndices>{{1, 3}, {2, 0}, {4}});
  CHECK(evaluation_batches({}, 2).empty());
  const std::vector<Example> pairs = {{{4}, {4, 5, 6}}, {{4, 5}, {4}}, {{4}, {4, 5}}, {{4}, {4}}};
  CHECK(evaluation_batches(pairs, 3) == std::vector<BatchIndices>{{3, 2, 0}, {1}});
  const BatchLimit two_rows{.rows = 2, .source = 99, .target = 99};
  CHECK(evaluation_batches(pairs, {0, 1, 3}, two_rows, pair_rows) ==
        std::vector<BatchIndices>{{3, 0}, {1}});
}

TEST_CASE("evaluation batches can be limited by their number of positions on each side") {
  const std::vector<Example> pairs{{{4, 4}, {4}}, {{4}, {4, 4}},    {{4, 4}, {}},
                                   {{4}, {4}},    {{4, 4, 4}, {4}}, {{4, 4, 4, 4}, {4}}};
  const BatchIndices all{0, 1, 2, 3, 4, 5};
  const auto batches = [&](const BatchLimit& limit) {
    return evaluation_batches(pairs, all, limit, pair_rows);
  };
  const std::vector<BatchIndices> by_rows{{3, 1, 2}, {0, 4, 5}};
  CHECK(batches({.rows = 3, .source = 99, .target = 99}) == by_rows);
  CHECK(batches({.rows = 3, .source = 15, .target = 9}) == by_rows);
  CHECK(batches({.rows = 3, .source = 14, .target = 9}) ==
        std::vector<BatchIndices>{{3, 1, 2}, {0, 4}, {5}});
  CHECK(batches({.rows = 3, .source = 15, .target = 8}) ==
        std::vector<BatchIndices>{{3, 1}, {2, 0, 4}, {5}});
  CHECK(batches({.rows = 3, .source = 0, .target = 0}) ==
        std::vector<BatchIndices>{{3}, {1}, {2}, {0}, {4}, {5}});
  CHECK(evaluation_batches(pairs, {}, {.rows = 1}, pair_rows).empty());
  CHECK_THROWS_AS(batches({.source = 99, .target = 99}), std::invalid_argument);
}

TEST_CASE("the limit of a full batch is computed from the longest source and the longest target") {
  const std::vector<Example> pairs{{{4, 4}, {4}}, {{4}, {4, 4, 4}}, {{4}, {}}};
  CHECK(full_batch_limit(pairs, 2, pair_rows) == BatchLimit{.rows = 2, .source = 6, .target = 8});
  CHECK(full_batch_limit(pairs, 64, pair_rows) == BatchLimit{.rows = 3, .source = 9, .target = 12});
  CHECK(full_batch_limit({}, 64, pair_rows) == BatchLimit{});
}

TEST_CASE("the order of batches is the same in every version, so that runs can be resumed") {
  const auto digest = [](BatchSchedule schedule) {
    Xxh3 hash;
    for (std::uint64_t epoch : {0, 5}) {
      for (const BatchIndices& batch : schedule.epoch(epoch)) {
        for (const std::uint64_t index : batch) hash.add(&index, sizeof(index));
      }
    }
    return hash.value();
  };
  const std::vector<Example> pairs = random_pairs(2503);
  CHECK(digest({pairs, 10, 7, BatchLengths::alike}) == 2558904658660153732u);
  CHECK(digest({pairs, 10, 7, BatchLengths::mixed}) == 6583390298696190269u);
  CHECK(digest({pairs, BatchTokens{160}, 7}) == 16558537792169973364u);
}

// ---- DataLoader

using Batches = std::vector<std::vector<std::int32_t>>;

TEST_CASE(
    "without shuffling, batches contain the examples in order, and the last batch is smaller") {
  const DataLoader loader(5, {.batch_size = 2, .shuffle = false});
  CHECK(loader.batches_per_epoch() == 3);
  CHECK(loader.epoch(0) == Batches{{0, 1}, {2, 3}, {4}});
  CHECK(loader.epoch(7) == loader.epoch(0));
  // drop_last drops the last batch only if it is smaller.
  const DataLoader five(5, {.batch_size = 2, .shuffle = false, .drop_last = true});
  CHECK(five.batches_per_epoch() == 2);
  CHECK(five.epoch(0) == Batches{{0, 1}, {2, 3}});
  CHECK(DataLoader(4, {.batch_size = 2, .drop_last = true}).batches_per_epoch() == 2);
  CHECK(DataLoader(1, {.batch_size = 2, .drop_last = true}).epoch(0).empty());
}

TEST_CASE(
    "each epoch contains every example once, in an order that depends only on seed and epoch") {
  const DataLoaderOptions options{.batch_size = 7, .seed = 3};
  const DataLoader loader(100, options);
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    CHECK(covers_all(loader.epoch(epoch), 100));
    CHECK_FALSE(std::ranges::is_sorted(loader.epoch(epoch)));
  }
  CHECK(loader.epoch(0) != loader.epoch(1));
  // A run that resumes within an epoch uses this call.
  const Batches whole = loader.epoch(4);
  CHECK(DataLoader(100, options).epoch(4, 10) == Batches(whole.begin() + 10, whole.end()));
  CHECK(DataLoader(100, options).epoch(4, 15).empty());
  CHECK(DataLoader(100, {.batch_size = 7, .seed = 4}).epoch(4) != whole);
}

TEST_CASE("a DataLoader without examples, or with batch size 0, is rejected") {
  CHECK_THROWS_AS(DataLoader(0), std::invalid_argument);
  CHECK_THROWS_AS(DataLoader(std::size_t{1} << 31), std::invalid_argument);
  CHECK_THROWS_AS(DataLoader(1, {.batch_size = 0}), std::invalid_argument);
}
