// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/random.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "autograd/error.h"
#include "autograd/kernels/philox.h"
#include "tests/support/errors.h"
#include "tests/support/threads.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;
using kernels::philox;
using kernels::philox_group;
using kernels::philox_words;
using kernels::philox_words_by_loops;

TEST_CASE("a stream is a pure function of seed, names, numbers and counter") {
  const auto draw = [] { return RandomStream(7).named("dropout").at(3).uniform(11); };
  CHECK(draw() == draw());
  const RandomStream stream = RandomStream(7).named("dropout");
  const double later = stream.uniform(5);
  CHECK(stream.uniform(4) != later);
  CHECK(stream.uniform(5) == later);
}

TEST_CASE("streams differ by seed, name, number and order of derivation") {
  const RandomStream root(1);
  const RandomStream streams[] = {root,
                                  RandomStream(2),
                                  root.named("init"),
                                  root.named("dropout"),
                                  root.at(0),
                                  root.at(1),
                                  root.named("init").at(0),
                                  root.at(0).named("init"),
                                  root.named(""),
                                  root.named("0"),
                                  root.named("init").at(1),
                                  root.at(0).at(0),
                                  root.at(1).at(0),
                                  root.at(0).at(1),
                                  root.named("dropout").named("init")};
  std::set<std::uint64_t> keys;
  std::set<double> first_numbers;
  for (const RandomStream& stream : streams) {
    keys.insert(stream.key());
    first_numbers.insert(stream.uniform(0));
  }
  CHECK(keys.size() == std::size(streams));
  CHECK(first_numbers.size() == std::size(streams));
}

// Computed from philox4x32-10 and FNV-1a by an independent program. If the numbers changed,
// interrupted runs could not be resumed.
TEST_CASE("keys and numbers of a random stream never change") {
  const RandomStream dropout = RandomStream(7).named("dropout");
  CHECK(dropout.key() == 0xa920e29e9feffcddU);
  CHECK(dropout.at(3).key() == 0x5d6ad73805e2b78aU);
  CHECK(RandomStream(7).at(3).key() == 0x120eb83e422aeaf1U);
  CHECK(RandomStream(7).named("\xC3\xA9").key() == 0x6acbd9bed729e07cU);  // bytes above 127
  CHECK(dropout.at(3).uniform(11) == 0x1.9906856fdcc5fp-1);
  CHECK(dropout.at(3).uniform(std::uint64_t{1} << 40) == 0x1.06dc1b916b02cp-3);
  CHECK(dropout.at(3).normal(11) == doctest::Approx(0.2872616412867468).epsilon(1e-14));
}

TEST_CASE("a stream that is off remains off when it is split") {
  const RandomStream off;
  CHECK_FALSE(off.on());
  CHECK_FALSE(off.named("dropout").on());
  CHECK_FALSE(off.at(3).on());
  CHECK(RandomStream(0).on());
  CHECK(RandomStream(0).named("dropout").at(3).on());
}

TEST_CASE("uniform numbers stay inside (0, 1) with the mean and variance of the distribution") {
  const RandomStream stream = RandomStream(42).named("uniform");
  constexpr std::uint64_t n = 200000;
  double sum = 0.0, squares = 0.0, low = 1.0, high = 0.0;
  for (std::uint64_t i = 0; i < n; ++i) {
    const double u = stream.uniform(i);
    sum += u;
    squares += (u - 0.5) * (u - 0.5);
    low = std::min(low, u);
    high = std::max(high, u);
  }
  CHECK(low > 0.0);
  CHECK(low < 1e-4);
  CHECK(high < 1.0);
  CHECK(high > 1.0 - 1e-4);
  CHECK(std::abs(sum / n - 0.5) < 0.003);           // 4.6 standard errors
  CHECK(std::abs(squares / n - 1.0 / 12) < 0.001);  // 6 standard errors
}

TEST_CASE("normal numbers have the moments and the tails of the standard normal distribution") {
  const RandomStream stream = RandomStream(42).named("normal");
  constexpr std::uint64_t n = 200000;
  double sum = 0.0, squares = 0.0, fourths = 0.0;
  std::uint64_t beyond_two = 0;
  for (std::uint64_t i = 0; i < n; ++i) {
    const double z = stream.normal(i);
    sum += z;
    squares += z * z;
    fourths += z * z * z * z;
    beyond_two += std::abs(z) > 2.0;
  }
  CHECK(std::abs(sum / n) < 0.011);            // 5 standard errors
  CHECK(std::abs(squares / n - 1.0) < 0.016);  // 5 standard errors
  CHECK(std::abs(fourths / n - 3.0) < 0.12);   // 5.5 standard errors
  CHECK(static_cast<double>(beyond_two) / n == doctest::Approx(0.0455).epsilon(0.06));
}

TEST_CASE("value i of a random tensor is number i of its stream, in both precisions") {
  const RandomStream stream = RandomStream(5).named("noise");
  for (const DType dtype : dtypes) {
    const Tensor uniform = random_uniform({2, 3}, stream, -1.0, 3.0, dtype);
    const Tensor normal = random_normal({2, 3}, stream, 10.0, 0.5, dtype);
    CHECK(uniform.shape() == Shape{2, 3});
    CHECK(uniform.dtype() == dtype);
    CHECK(normal.dtype() == dtype);
    std::vector<double> u, z;
    for (std::uint64_t i = 0; i < 6; ++i) {
      u.push_back(-1.0 + 4.0 * stream.uniform(i));
      z.push_back(10.0 + 0.5 * stream.normal(i));
    }
    check_values(uniform, u, tolerance(dtype));
    check_values(normal, z, tolerance(dtype));
  }
  CHECK(random_uniform({3}, stream).dtype() == DType::float32);
  CHECK(random_uniform({3}, stream).to_vector()[1] == static_cast<float>(stream.uniform(1)));
  CHECK(random_normal({}, stream).item() == static_cast<float>(stream.normal(0)));
  CHECK(random_normal({0, 2}, stream).shape() == Shape{0, 2});
}

TEST_CASE("random tensors are bit-identical on any number of threads") {
  const RandomStream stream(3);
  CHECK(same_on_any_number_of_threads([&] {
    auto values = random_uniform({100, 99}, stream, 0.0, 1.0, DType::float64).to_vector();
    const auto normal = random_normal({9901}, stream).to_vector();
    values.insert(values.end(), normal.begin(), normal.end());
    return values;
  }));
  const Tensor x = random_uniform({9900}, stream, 0.0, 1.0, DType::float64);
  CHECK(x.to_vector().back() == stream.uniform(9899));
}

TEST_CASE("uniform numbers that would round to the upper limit are the largest number below it") {
  const RandomStream stream(1);
  // float32 has one number between the limits, so a quarter of all numbers would round to `high`.
  const double high = 1.0 + 0x1.0p-22;
  const auto values = random_uniform({1000}, stream, 1.0, high).to_vector();
  for (const double value : values) CHECK(value < high);
  CHECK(*std::ranges::min_element(values) == 1.0);
  CHECK(*std::ranges::max_element(values) == 1.0 + 0x1.0p-23);
  CHECK(random_uniform({2}, stream, 0.5, 0.5).to_vector() == std::vector{0.5, 0.5});
  CHECK(random_normal({2}, stream, 0.5, 0.0).to_vector() == std::vector{0.5, 0.5});
}

TEST_CASE("random tensors reject a stream that is off and numbers out of range") {
  const RandomStream off, stream(1);
  check_error<ValueError>("random_uniform:|(1)", [&] { random_uniform({2}, off); });
  CHECK_THROWS_AS(random_normal({2}, off), ValueError);
  check_error<ValueError>("random_uniform:|1|0.5", [&] { random_uniform({2}, stream, 1.0, 0.5); });
  CHECK_THROWS_AS(random_uniform({2}, stream, 0.0, inf), ValueError);
  CHECK_THROWS_AS(random_uniform({2}, stream, std::nan(""), 1.0), ValueError);
  check_error<ValueError>("random_normal:|0|-1", [&] { random_normal({2}, stream, 0.0, -1.0); });
  CHECK_THROWS_AS(random_normal({2}, stream, inf), ValueError);
  CHECK_THROWS_AS(random_normal({2}, stream, 0.0, std::nan("")), ValueError);
}

TEST_CASE("random ids are whole numbers from low to high - 1, one for each number of the stream") {
  const RandomStream stream = RandomStream(5).named("ids");
  const Ids ids = random_ids({2, 3}, stream, -2, 5);
  CHECK(ids.shape() == Shape{2, 3});
  for (std::uint64_t i = 0; i < 6; ++i) {
    CHECK(ids[i] == -2 + static_cast<std::int32_t>(std::floor(7 * stream.uniform(i))));
  }
  std::vector<int> counts(7);
  const Ids many = random_ids({70000}, stream, -2, 5);
  for (const std::int32_t id : many) ++counts.at(static_cast<std::size_t>(id + 2));
  for (const int count : counts) CHECK(std::abs(count - 10000) < 465);  // 5 standard errors
  CHECK(random_ids({3}, stream, 7, 8) == Ids::from({7, 7, 7}));
  CHECK(random_ids({0}, stream, 0, 1).size() == 0);
}

TEST_CASE("a random permutation has each number once, and every order is equally likely") {
  const RandomStream stream = RandomStream(3).named("split");
  const Ids order = random_permutation(1000, stream);
  CHECK(order.shape() == Shape{1000});
  CHECK(order == random_permutation(1000, stream));
  CHECK(order != random_permutation(1000, stream.at(1)));
  std::vector<std::int32_t> sorted(order.begin(), order.end()), all(1000);
  std::ranges::sort(sorted);
  std::iota(all.begin(), all.end(), 0);
  CHECK(sorted == all);
  CHECK(!std::ranges::is_sorted(order));
  std::map<std::vector<std::int32_t>, int> counts;
  for (std::uint64_t i = 0; i < 24000; ++i) {
    const Ids four = random_permutation(4, stream.at(i));
    ++counts[{four.begin(), four.end()}];
  }
  CHECK(counts.size() == 24);
  for (const auto& [permutation, count] : counts)
    CHECK(std::abs(count - 1000) < 155);  // 5 standard errors
}

TEST_CASE("a random permutation swaps numbers as documented, and may be empty") {
  const RandomStream stream(8);
  std::vector<std::int32_t> expected{0, 1, 2, 3, 4};
  for (std::size_t i = 4; i >= 1; --i) {
    const double drawn = std::floor(static_cast<double>(i + 1) * stream.uniform(i));
    std::swap(expected[i], expected[static_cast<std::size_t>(drawn)]);
  }
  CHECK(random_permutation(5, stream) == Ids::from(expected));
  CHECK(random_permutation(1, stream) == Ids::from({0}));
  CHECK(random_permutation(0, stream).size() == 0);
  check_error<ValueError>("random_permutation: the random stream is off",
                          [&] { random_permutation(3, RandomStream()); });
  check_error<ValueError>("random_permutation:|2147483649|2|31",
                          [&] { random_permutation((std::size_t{1} << 31) + 1, stream); });
}

TEST_CASE("sampling chooses an index in each row by cumulative probability") {
  const RandomStream stream = RandomStream(5).named("sample");
  const double p[] = {0.125, 0.5, 0.375};
  for (const DType dtype : dtypes) {
    std::vector<double> rows;
    for (int r = 0; r < 40; ++r) {
      for (const double each : p) rows.push_back(std::log(each) + r);  // adding r has no effect
    }
    const Ids drawn = random_categorical(Tensor::from({10, 4, 3}, rows, dtype), stream);
    CHECK(drawn.shape() == Shape{10, 4});
    for (std::uint64_t r = 0; r < 40; ++r) {
      const double u = stream.uniform(r);
      CHECK(drawn[r] == (u < 0.125 ? 0 : u < 0.625 ? 1 : 2));
    }
  }
  CHECK(random_categorical(Tensor::from({3.0}), stream) == Ids(Shape{}, 0));
  CHECK(random_categorical(Tensor::zeros({0, 3}), stream).shape() == Shape{0});
}

TEST_CASE("a logit of -inf is never sampled, and large logits do not overflow") {
  const RandomStream stream(1);
  std::vector<double> rows;
  for (int r = 0; r < 1000; ++r) rows.insert(rows.end(), {-inf, 1e4, -inf, 1e4, -1e4, -inf});
  const Ids drawn = random_categorical(Tensor::from({1000, 6}, rows), stream);
  const auto ones = std::ranges::count(drawn, 1), threes = std::ranges::count(drawn, 3);
  CHECK(ones + threes == 1000);
  CHECK(std::abs(ones - 500) < 80);  // 5 standard errors
}

TEST_CASE("sampling rejects a stream that is off and logits without a finite maximum") {
  const float inf = std::numeric_limits<float>::infinity();
  const RandomStream off, stream(1);
  check_error<ValueError>("random_ids:|3", [&] { random_ids({2}, stream, 3, 3); });
  CHECK_THROWS_AS(random_ids({2}, off, 0, 3), ValueError);
  CHECK_THROWS_AS(random_categorical(Tensor::zeros({2}), off), ValueError);
  check_error<ShapeError>("random_categorical:|1",
                          [&] { random_categorical(Tensor::scalar(1.0), stream); });
  CHECK_THROWS_AS(random_categorical(Tensor::zeros({2, 0}), stream), ShapeError);
  check_error<ValueError>("random_categorical:|(1)|inf", [&] {
    random_categorical(Tensor::from({{0.0, 1.0}, {0.0, inf}}), stream);
  });
  CHECK_THROWS_AS(random_categorical(Tensor::from({-inf, -inf}), stream), ValueError);
  CHECK_THROWS_AS(random_categorical(Tensor::from({1.0, std::nan("")}), stream), ValueError);
}

TEST_CASE("random tensors have the element type of the stream if none is given") {
  const RandomStream stream = RandomStream(3);
  for (const DType dtype : dtypes) {
    CHECK(random_normal({4}, stream, dtype).dtype() == dtype);
    CHECK(random_uniform({4}, stream, dtype).dtype() == dtype);
    check_values(random_normal({4}, stream, dtype),
                 values_of(random_normal({4}, stream, 0.0, 1.0, dtype)));
    check_values(random_uniform({4}, stream, dtype),
                 values_of(random_uniform({4}, stream, 0.0, 1.0, dtype)));
  }
}

// The known answers for philox4x32-10 that are published with Random123 (tests/kat_vectors).
TEST_CASE("philox gives the published answers") {
  using Words = std::array<std::uint32_t, 4>;
  CHECK(philox(0, 0, 0) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  const std::uint64_t ones = ~std::uint64_t{0};
  CHECK(philox(ones, ones, ones) == Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox(0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e) ==
        Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("a group of words interleaves 16 blocks of philox, word by word") {
  const std::uint64_t keys[] = {0, 1, 0x0123456789abcdef, ~std::uint64_t{0}};
  const std::uint64_t groups[] = {
      0, 1, 2, 1000003, std::uint64_t{1} << 28, (std::uint64_t{1} << 60) - 1};
  for (const std::uint64_t key : keys) {
    for (const std::uint64_t group : groups) {
      CAPTURE(key);
      CAPTURE(group);
      for (const auto words_of : {philox_words, philox_words_by_loops}) {
        std::vector<std::uint32_t> words(philox_group + 1, 0xdeadbeef);
        words_of(key, group, words.data());
        for (std::size_t lane = 0; lane < 16; ++lane) {
          const auto expected = philox(key, 16 * group + lane, 0);
          for (std::size_t word = 0; word < 4; ++word) {
            CHECK(words[16 * word + lane] == expected[word]);
          }
        }
        CHECK(words[philox_group] == 0xdeadbeef);
      }
    }
  }
}
