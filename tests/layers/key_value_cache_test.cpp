// SPDX-License-Identifier: BSD-3-Clause
#include "layers/multi_head_attention.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "autograd/error.h"
#include "autograd/kernels/matmul.h"
#include "autograd/ops/shape_ops.h"
#include "tests/layers/network_cases.h"
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

TEST_CASE("a cache holds appended tokens in order, for any capacity") {
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

TEST_CASE(
    "a cache rejects tokens of the wrong shape or type, and the selection of unknown sequences") {
  KeyValueCache cache;
  cache.append(tokens({1, 2, 3, 4}), tokens({5, 6, 7, 8}));
  const Tensor one = Tensor::zeros({1, 1, 2}), wide = Tensor::zeros({2, 1, 3});
  const Tensor fitting = Tensor::zeros({2, 1, 2});
  CHECK_THROWS_AS(cache.append(one, one), ShapeError);
  CHECK_THROWS_AS(cache.append(fitting, wide), ShapeError);
  CHECK_THROWS_AS(cache.append(fitting.detach().to(DType::float64), fitting), ShapeError);
  CHECK_THROWS_AS(KeyValueCache(fitting, one), ShapeError);
  CHECK_THROWS_AS(cache.select(std::vector<std::size_t>{2}), ValueError);
  CHECK(cache.length() == 1);
}

namespace {

const Ids targets{{1, 8, 7, 9, 4}, {1, 4, 9, 3, 3}, {1, 5, 10, 6, 2}};

TokenBatch without_padding(const Ids& ids) {
  const auto length = static_cast<std::int32_t>(ids.shape()[1]);
  return {.ids = ids, .lengths = std::vector<std::int32_t>(ids.shape()[0], length)};
}

/// The logits (rows, vocabulary) that follow the last of `tokens`, from a whole forward pass.
Tensor recomputed(const Network& network, const TokenBatch& sources, const Ids& tokens) {
  const NetworkInput input{.source = sources, .target = without_padding(tokens)};
  return select(network(input, Mode::inference()), 1, -1);
}

/// Checks that values are bit-identical, or equal up to rounding with OpenBLAS, whose bits depend
/// on the number of rows.
void check_same(const Tensor& a, const Tensor& b) {
  REQUIRE(a.shape() == b.shape());
  if (matmul_in_use() == Matmul::tapestry) {
    CHECK(a.to_vector() == b.to_vector());
  } else {
    check_values(a, b.to_vector(), a.dtype() == DType::float32 ? 1e-4 : 1e-12);
  }
}

const std::array<ModelKind, 2> causal_kinds{ModelKind::seq2seq, ModelKind::language_model};

template <class Check>
void for_every_causal_network(const Check& check) {
  for (const ModelKind kind : causal_kinds) {
    for (const DType dtype : {DType::float32, DType::float64}) {
      for (const TransformerOptions& options : every_choice()) {
        const MadeNetwork made(with_kind(options, kind), dtype);
        check(*made.network);
      }
    }
  }
}

}  // namespace

TEST_CASE("decoding token by token is bit-identical to a forward pass of the whole sequences") {
  for_every_causal_network([](const Network& network) {
    const auto decoder = network.start_decoding(source);
    for (std::ptrdiff_t t = 1; t <= 5; ++t) {
      const Tensor logits = decoder->extend(slice(targets, 1, t - 1, t));
      check_same(logits, recomputed(network, source, slice(targets, 1, 0, t)));
    }
  });
}

TEST_CASE("several tokens can be appended in one call") {
  for_every_causal_network([](const Network& network) {
    const auto decoder = network.start_decoding(source);
    decoder->extend(slice(targets, 1, 0, 3));
    check_same(decoder->extend(slice(targets, 1, 3, 5)), recomputed(network, source, targets));
  });
}

TEST_CASE("select() of a decoder keeps and copies sequences of the selected sources") {
  // Starts with two sequences for each of three sources, then keeps both sequences of the first
  // source and two copies of the last source's second sequence.
  const Ids first{{1, 8}, {1, 7}, {1, 4}, {1, 9}, {1, 5}, {1, 10}};
  const std::vector<std::size_t> rows{0, 1, 5, 5}, sources{0, 2};
  const Ids whole{{1, 8, 3}, {1, 7, 4}, {1, 10, 5}, {1, 10, 6}};
  const TokenBatch each{.ids = {{5, 6, 7, 8}, {5, 6, 7, 8}, {3, 10, 5, 0}, {3, 10, 5, 0}},
                        .lengths = {4, 4, 3, 3}};
  for_every_causal_network([&](const Network& network) {
    const auto decoder = network.start_decoding(source);
    decoder->extend(first);
    decoder->select(rows, sources);
    check_same(decoder->extend(slice(whole, 1, 2, 3)), recomputed(network, each, whole));
  });
}

TEST_CASE("select() of a language model's decoder copies sequences") {
  for (const TransformerOptions& options : every_choice()) {
    const MadeNetwork made(with_kind(options, ModelKind::language_model));
    const auto decoder = made.network->start_decoding({});
    const std::vector<std::size_t> sources{0, 1, 2};
    decoder->extend(slice(targets, 1, 0, 2));
    decoder->select(std::vector<std::size_t>{0, 0, 2}, sources);  // in place
    decoder->extend(slice(targets, 1, 2, 3));
    decoder->select(std::vector<std::size_t>{2, 1, 0}, sources);  // not in place
    const Ids whole{{1, 5, 10, 6}, {1, 8, 9, 3}, {1, 8, 7, 9}};
    check_same(decoder->extend(slice(whole, 1, 3, 4)), recomputed(*made.network, {}, whole));
  }
}

TEST_CASE("a decoder rejects tokens and sources that do not fit its sequences") {
  const MadeNetwork made(with_kind(small(), ModelKind::seq2seq));
  const auto decoder = made.network->start_decoding(source);
  decoder->extend(slice(targets, 1, 0, 1));
  CHECK_THROWS_AS(decoder->extend(Ids{{1}, {2}}), ShapeError);
  CHECK_THROWS_AS(
      decoder->select(std::vector<std::size_t>{0, 1, 3}, std::vector<std::size_t>{0, 1, 2}),
      ValueError);
  const auto longest = made.network->start_decoding(source);
  CHECK_THROWS_AS(longest->extend(Ids(Shape{3, 8}, 1)), ShapeError);
  longest->extend(Ids(Shape{3, 7}, 1));
  CHECK_THROWS_AS(longest->extend(Ids(Shape{3, 1}, 1)), ShapeError);
}

TEST_CASE("networks that are not causal have no incremental decoder") {
  for (const ModelKind kind : every_model_kind) {
    if (std::ranges::find(causal_kinds, kind) != causal_kinds.end()) continue;
    CHECK(MadeNetwork(with_kind(small(), kind)).network->start_decoding(source) == nullptr);
  }
}
