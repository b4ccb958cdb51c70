#include <doctest/doctest.h>

#include <algorithm>
#include <array>

#include "autograd/error.h"
#include "autograd/kernels/matmul.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/tape.h"
#include "tests/layers/network_cases.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

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

/// The same bits; with the matrix products of OpenBLAS, whose bits depend on the number of rows,
/// values that are equal up to rounding.
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

TEST_CASE("decoding token by token gives the same bits as the whole sequences") {
  for_every_causal_network([](const Network& network) {
    const auto decoder = network.start_decoding(source);
    for (std::ptrdiff_t t = 1; t <= 5; ++t) {
      const Tensor logits = decoder->extend(slice(targets, 1, t - 1, t));
      check_same(logits, recomputed(network, source, slice(targets, 1, 0, t)));
    }
  });
}

TEST_CASE("several tokens can be appended at once") {
  for_every_causal_network([](const Network& network) {
    const auto decoder = network.start_decoding(source);
    decoder->extend(slice(targets, 1, 0, 3));
    check_same(decoder->extend(slice(targets, 1, 3, 5)), recomputed(network, source, targets));
  });
}

TEST_CASE("select() of a decoder keeps and copies sequences, which share their source") {
  // Two sequences for each of three sources; then of the first and the last source alone, where
  // both sequences of the last source continue its second one.
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

TEST_CASE("a decoder refuses tokens and sources that do not fit its sequences") {
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
