#include "layers/multi_head_attention.h"

#include <doctest/doctest.h>

#include <vector>

#include "autograd/error.h"
#include "autograd/ops/shape_ops.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

/// The tokens that the cache holds.
std::vector<double> held(const Tensor& x, const KeyValueCache& cache) {
  return slice(x, 1, 0, static_cast<std::ptrdiff_t>(cache.length())).to_vector();
}

Tensor tokens(std::initializer_list<double> values) {
  return Tensor::from({2, values.size() / 4, 2}, values);
}

}  // namespace

TEST_CASE("a cache holds appended tokens in order, whatever its capacity") {
  KeyValueCache cache;
  CHECK(cache.rows() == 0);
  CHECK(cache.length() == 0);
  std::vector<double> first, second;
  for (int t = 0; t < 40; ++t) {
    const double x = t;
    cache.append(tokens({x, x + 0.25, -x, -x - 0.25}), tokens({2 * x, 0, 3 * x, 0}));
    first.insert(first.end(), {x, x + 0.25});
    second.insert(second.end(), {-x, -x - 0.25});
    std::vector<double> both = first;
    both.insert(both.end(), second.begin(), second.end());
    CHECK(held(cache.keys(), cache) == both);
  }
  CHECK(cache.rows() == 2);
  CHECK(cache.length() == 40);
  const auto values = held(cache.values(), cache);
  CHECK(values[2 * 39] == 78);
  CHECK(values[2 * 79] == 117);
}

TEST_CASE("a cache never writes to the tensors that are appended") {
  const Tensor keys = tokens({1, 2, 3, 4}), values = tokens({5, 6, 7, 8});
  KeyValueCache cache(keys, values);
  cache.select(std::vector<std::size_t>{0, 0});
  cache.append(tokens({9, 9, 9, 9}), tokens({9, 9, 9, 9}));
  CHECK(held(cache.keys(), cache) == std::vector<double>{1, 2, 9, 9, 1, 2, 9, 9});
  KeyValueCache appended;
  appended.append(keys, values);
  appended.select(std::vector<std::size_t>{1, 1});
  CHECK(held(appended.values(), appended) == std::vector<double>{7, 8, 7, 8});
  CHECK(keys.to_vector() == std::vector<double>{1, 2, 3, 4});
  CHECK(values.to_vector() == std::vector<double>{5, 6, 7, 8});
}

TEST_CASE("select() of a cache copies the selected sequences, in any order and number") {
  const auto selected = [](const std::vector<std::size_t>& rows) {
    KeyValueCache cache;
    cache.append(tokens({1, 2, 3, 4}), tokens({5, 6, 7, 8}));
    cache.select(rows);
    CHECK(cache.rows() == rows.size());
    return held(cache.keys(), cache);
  };
  CHECK(selected({0, 1}) == std::vector<double>{1, 2, 3, 4});
  CHECK(selected({1, 0}) == std::vector<double>{3, 4, 1, 2});
  CHECK(selected({1, 1}) == std::vector<double>{3, 4, 3, 4});
  CHECK(selected({1}) == std::vector<double>{3, 4});
  CHECK(selected({1, 0, 0}) == std::vector<double>{3, 4, 1, 2, 1, 2});
}

TEST_CASE("a cache refuses another number of sequences, and the selection of ones it lacks") {
  KeyValueCache cache;
  cache.append(tokens({1, 2, 3, 4}), tokens({5, 6, 7, 8}));
  const Tensor one = Tensor::zeros({1, 1, 2}), wide = Tensor::zeros({2, 1, 3});
  const Tensor fitting = Tensor::zeros({2, 1, 2});
  CHECK_THROWS_AS(cache.append(one, one), ShapeError);
  CHECK_THROWS_AS(cache.append(fitting, wide), ShapeError);
  CHECK_THROWS_AS(cache.append(fitting.copied(DType::float64), fitting), ShapeError);
  CHECK_THROWS_AS(KeyValueCache(fitting, one), ShapeError);
  CHECK_THROWS_AS(cache.select(std::vector<std::size_t>{2}), ValueError);
  CHECK(cache.length() == 1);
}
