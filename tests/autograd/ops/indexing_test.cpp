// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/ops/indexing.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "autograd/error.h"
#include "autograd/ops/activations.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/reductions.h"
#include "tests/support/cases.h"
#include "tests/support/gradients.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

/// Ids below `extent` that occur with uneven frequency.
Ids uneven_ids(const Shape& shape, std::size_t extent) {
  Ids ids = Ids::zeros(shape);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i * i % extent);
  return ids;
}

constexpr std::array<std::int32_t, 3> lengths = {2, 0, 3};

}  // namespace

TEST_CASE("index_select and gather give hand-worked values and gradients") {
  const Tensor x = exact({2, 3}, {1, 2, 3, 4, 5, 6});
  const Tensor square = exact({3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  const auto selects = [](std::ptrdiff_t axis, const Ids& index) {
    return [=](const Tensor& t) { return index_select(t, axis, index); };
  };
  const auto gathers = [](std::ptrdiff_t axis, const Ids& index) {
    return [=](const Tensor& t) { return gather(t, axis, index); };
  };
  check_worked({
      worked("index_select of rows", selects(0, Ids::from({1, 1, 0})), x,
             exact({3, 3}, {4, 5, 6, 4, 5, 6, 1, 2, 3}), {1, 2, 3, 10, 20, 30, 5, 5, 5},
             {5, 5, 5, 11, 22, 33}),
      worked("index_select of columns", selects(-1, Ids::from({2, 0, 2})), x,
             exact({2, 3}, {3, 1, 3, 6, 4, 6}), {1, 2, 3, 4, 5, 6}, {2, 0, 4, 5, 0, 10}),
      worked("index_select by ids of two axes", selects(1, Ids{{2, 0}, {1, 1}}), x,
             exact({2, 2, 2}, {3, 1, 2, 2, 6, 4, 5, 5})),
      worked("index_select by a scalar", selects(1, Ids(Shape{}, 2)), x, exact({3, 6})),
      worked("index_select of nothing", selects(1, Ids()), x, exact({2, 0}, {})),
      worked("index_select of no rows", selects(0, Ids()), exact({0, 2}, {}), exact({0, 2}, {})),
      worked("NaN that is not selected", selects(0, Ids::from({2, 0})), exact({1, not_a_number, 3}),
             exact({3, 1}), {1, 2}, {2, 0, 1}),
      worked(
          "ids in brackets",
          [](const Tensor& t) {
            return t[Ids::from({1, 1})];
          },
          x, exact({2, 3}, {4, 5, 6, 4, 5, 6})),
      worked("gather along rows", gathers(1, Ids{{2, 0, 2, 2}, {1, 1, 0, 2}}), x,
             exact({2, 4}, {3, 1, 3, 3, 5, 5, 4, 6}), {1, 2, 3, 4, 5, 6, 7, 8},
             {2, 0, 8, 7, 11, 8}),
      worked("gather along columns", gathers(0, Ids{{1, 0, 1}}), x, exact({1, 3}, {4, 2, 6})),
      worked("gather from the end", gathers(-1, Ids{{2}, {0}}), x, exact({2, 1}, {3, 4})),
      worked("an index smaller than x", gathers(0, Ids{{2, 0}}), square, exact({1, 2}, {7, 2}),
             {10, 20}, {0, 20, 0, 0, 0, 0, 10, 0, 0}),
      worked("gather of nothing", gathers(1, Ids::zeros({2, 0})), x, exact({2, 0}, {})),
  });
}

TEST_CASE("index_select and gather of large tensors agree with loops") {
  constexpr std::size_t outer = 40, extent = 30, inner = 50, chosen = 45;
  const Tensor x = random_leaf({outer, extent, inner}, 1);
  const Ids whole = uneven_ids({chosen}, extent);
  const Ids each = uneven_ids({outer, chosen, inner}, extent);
  for (const bool gathers : {false, true}) {
    CAPTURE(gathers);
    const Results found = results_of(
        [&](const Operands& o) {
          return gathers ? gather(o[0], 1, each) : index_select(o[0], 1, whole);
        },
        {x});
    const auto dy =
        values_of(upstream_of(zeros({outer, chosen, inner}).detach().to(DType::float64)));
    std::vector<double> y, dx(x.size(), 0.0);
    for (std::size_t i = 0; i < dy.size(); ++i) {
      const std::size_t o = i / inner / chosen, k = i / inner % chosen;
      const auto index = static_cast<std::size_t>(gathers ? each[i] : whole[k]);
      const std::size_t at = (o * extent + index) * inner + i % inner;
      y.push_back(x.values<double>()[at]);
      dx[at] += dy[i];
    }
    CHECK(found == Results{y, {dx}});
  }
}

TEST_CASE(
    "index_select and gather reject invalid indices, naming their position, and invalid shapes") {
  const Tensor x = zeros({2, 3});
  check_error<ValueError>("index_select: index (1, 0) is 3|< 3", [&] {
    index_select(x, 1, Ids{{0, 1}, {3, 2}});
  });
  check_error<ValueError>("index_select: index (1) is -1|< 2", [&] { x[Ids::from({1, -1})]; });
  check_error<ValueError>("index_select: axis 2", [&] { index_select(x, 2, Ids()); });
  check_error<ValueError>("index_select", [&] { index_select(zeros({}), 0, Ids::from({0})); });
  CHECK_THROWS_AS(index_select(zeros({1, 1, 1, 1, 1}), 0, Ids::zeros({1, 1, 1, 1, 1})), ShapeError);
  check_error<ValueError>("gather: index (1, 1) is 3|< 3", [&] {
    gather(x, 1, Ids{{0, 1}, {2, 3}});
  });
  check_error<ValueError>("gather: index (0, 1) is -2|< 2", [&] { gather(x, 0, Ids{{0, -2}}); });
  check_error<ValueError>("gather: axis -3", [&] { gather(x, -3, Ids{{0}}); });
  check_error<ShapeError>("gather: index|(3, 1)|2 axes|(2, 3)|except along axis 1", [&] {
    gather(x, 1, Ids::zeros({3, 1}));
  });
  check_error<ShapeError>("gather: index|(2)|axis 0", [&] { gather(x, 0, Ids::zeros({2})); });
  check_error<ShapeError>("gather", [&] { gather(x, 0, Ids::zeros({5, 4})); });
  CHECK(gather(x, 0, Ids::zeros({5, 3})).shape() == Shape{5, 3});
}

TEST_CASE("topk gives the largest elements in descending order and their indices") {
  const Tensor x = exact({2, 4}, {3, 7, 5, 7, -1, -4, -2, -3});
  check_worked({
      worked("topk", [](const Tensor& t) { return topk(t, 3).values; }, x,
             exact({2, 3}, {7, 7, 5, -1, -2, -3}), {1, 2, 3, 4, 5, 6}, {0, 1, 3, 2, 4, 0, 5, 6}),
      worked(
          "topk of columns", [](const Tensor& t) { return topk(t, 1, 0).values; }, x,
          exact({1, 4}, {3, 7, 5, 7})),
  });
  CHECK(topk(x, 3).indices == Ids{{1, 3, 2}, {0, 2, 3}});
  CHECK(topk(x, 1, 0).indices == Ids{{0, 0, 0, 0}});
  CHECK(topk(exact({1, not_a_number, 2}), 2).indices == Ids::from({1, 2}));
  const Tensor cube = random_leaf({3, 5, 4}, 1);
  CHECK(gradient_error([&] { return topk(cube, 4, -1).values; }, {cube}) < 1e-9);
  // The step of a finite difference changes the order.
  const Tensor near = exact({1.0, 1.0 + 1e-9, 3.0}).set_requires_grad(true);
  CHECK(gradient_error([&] { return topk(near, 2).values; }, {near}) < 1e-6);
}

TEST_CASE("topk_log_softmax equals topk of log_softmax bit for bit") {
  for (const DType dtype : dtypes) {
    for (const std::size_t n : {1, 2, 7, 16, 63, 64, 65, 200, 1000}) {
      const Tensor x = random_leaf({5, n}, n).detach().to(dtype);
      for (const std::size_t k : {std::size_t{1}, (n + 1) / 2, n}) {
        const TopK expected = topk(log_softmax(x), k), found = topk_log_softmax(x, k);
        CHECK(found.values.to_vector() == expected.values.to_vector());
        CHECK(found.indices == expected.indices);
      }
    }
  }
}

TEST_CASE("topk_log_softmax takes the first of equal logits, and -inf only after all others") {
  std::vector<double> logits(200, 1.0);
  logits[0] = logits[150] = -inf;
  logits[190] = logits[70] = 2.0;
  CHECK(topk_log_softmax(exact(logits), 4).indices == Ids::from({70, 190, 1, 2}));
  const TopK impossible = topk_log_softmax(exact({-inf, -inf}), 2);
  CHECK(impossible.indices == Ids::from({0, 1}));
  CHECK(impossible.values.to_vector() == std::vector<double>{-inf, -inf});
}

TEST_CASE(
    "topk and topk_log_softmax reject k out of range; topk_log_softmax rejects recorded logits") {
  const Tensor x = random_leaf({2, 3}, 1);
  check_error<ValueError>("topk: k is 4|1 to 3|axis 1|(2, 3)", [&] { topk(x, 4); });
  check_error<ValueError>("topk", [&] { topk(x, 0); });
  check_error<ValueError>("topk", [&] { topk(x, 1, 2); });
  check_error<ValueError>("topk_log_softmax: k is 4|1 to 3|(2, 3)",
                          [&] { topk_log_softmax(x, 4); });
  check_error<ValueError>("topk_log_softmax", [&] { topk_log_softmax(x, 0); });
  check_error<ShapeError>("topk_log_softmax", [&] { topk_log_softmax(zeros({}), 1); });
  const Tape tape;
  check_error<ValueError>("topk_log_softmax", [&] { topk_log_softmax(x, 3); });
}

TEST_CASE("ids convert to tensors and one-hot vectors, and tensors of whole numbers to ids") {
  CHECK(to_ids(Tensor::from({{1, -2}, {0, 7}})) == Ids{{1, -2}, {0, 7}});
  CHECK(to_ids(exact({2147483647.0, -2147483648.0})) == Ids{2147483647, -2147483647 - 1});
  CHECK(to_ids(Tensor::scalar(3.0)).shape() == Shape{});
  check_error<ValueError>("to_ids: x [1, 1] is 4.5|whole number", [] {
    to_ids(Tensor::from({{1, 2}, {3, 4.5}}));
  });
  for (const double x : {2147483648.0, -2147483649.0, not_a_number}) {
    check_error<ValueError>("to_ids", [&] { to_ids(exact({x})); });
  }
  const Tensor numbers = to_tensor(Ids{{4, -1}}, DType::float64);
  CHECK(numbers.shape() == Shape{1, 2});
  CHECK(numbers.to_vector() == std::vector<double>{4.0, -1.0});
  CHECK(to_tensor(Ids{2}).dtype() == DType::float32);
  const Tensor hot = one_hot(Ids{{2, 0}}, 3);
  CHECK(hot.shape() == Shape{1, 2, 3});
  CHECK(hot.dtype() == DType::float32);
  check_values(hot, {0, 0, 1, 1, 0, 0});
  CHECK(one_hot(Ids::from({0}), 1, DType::float64).dtype() == DType::float64);
  check_error<ValueError>("one_hot: id (1) is 3|< 3", [] { one_hot(Ids::from({1, 3}), 3); });
  check_error<ValueError>("one_hot", [] { one_hot(Ids::from({-1}), 3); });
}

TEST_CASE("embedding gives hand-worked values and gradients") {
  const Tensor w = exact({3, 2}, {1, 2, 3, 4, 5, 6}), column = exact({3, 1}, {0, 0, 0});
  const auto looks_up = [](const Ids& ids, std::optional<std::int32_t> padding = std::nullopt,
                           double scale = 1.0) {
    return [=](const Tensor& weight) { return embedding(weight, ids, padding, scale); };
  };
  check_worked({
      worked("rows of ids", looks_up(Ids{{2, 0}, {0, 1}}), w,
             exact({2, 2, 2}, {5, 6, 1, 2, 1, 2, 3, 4})),
      worked("scaled, an id repeated", looks_up(Ids{{2, 0, 2}}, std::nullopt, 0.5), w,
             exact({1, 3, 2}, {2.5, 3, 0.5, 1, 2.5, 3}), {2, 4, 6, 8, 10, 12}, {3, 4, 0, 0, 6, 8}),
      worked("padding gets no gradient, not even NaN", looks_up(Ids{{2, 0, 0}, {2, 1, 0}}, 0),
             column, exact({2, 3, 1}, {0, 0, 0, 0, 0, 0}),
             {1, not_a_number, not_a_number, 2, 4, not_a_number}, {0, 4, 3}),
      worked("used twice",
             [](const Tensor& t) {
               return embedding(t, Ids{{0, 2}}, 2) + embedding(t, Ids{{1, 0}}, 2);
             },
             column, exact({1, 2, 1}, {0, 0}), {1, 10}, {11, 1, 0}),
      worked("ids of one axis", looks_up(Ids(Shape{2}, {2, 1})), w, exact({2, 2}, {5, 6, 3, 4})),
      worked("one id", looks_up(Ids(Shape{}, 1)), w, exact({3, 4})),
      worked("no ids", looks_up(Ids::zeros({2, 0})), column, exact({2, 0, 1}, {})),
  });
}

TEST_CASE("embedding accepts ids that are all equal, or all padding") {
  for (const DType dtype : dtypes) {
    for (const std::size_t d : {1, 7, 8, 16, 33}) {
      const Tensor weight = Tensor::zeros({2, d}, dtype).set_requires_grad(true);
      for (const std::int32_t padding : {0, 1}) {
        Tape tape;
        tape.backward(embedding(weight, Ids(Shape{5, 40}, 1), padding),
                      Tensor::full({5, 40, d}, 0.5, dtype));
      }
      std::vector<double> expected(2 * d, 0.0);
      std::fill(expected.begin() + static_cast<std::ptrdiff_t>(d), expected.end(), 100.0);
      CHECK(values_of(weight.grad()) == expected);
    }
  }
}

TEST_CASE("a large embedding agrees with loops, in every block of ids and strip of columns") {
  constexpr std::size_t vocabulary = 300, d = 270, rows = 9, length = 50;
  constexpr std::int32_t padding = 200;
  const Tensor weight = random_leaf({vocabulary, d}, 1);
  Ids ids = uneven_ids({rows, length}, vocabulary);
  ids(8, 40) = 299, ids(3, 7) = padding;
  const Results found =
      results_of([&](const Operands& o) { return embedding(o[0], ids, padding, 0.5); }, {weight});
  const auto w = values_of(weight);
  const auto dy = values_of(upstream_of(Tensor::zeros({rows, length, d}, DType::float64)));
  Results expected{{}, {std::vector<double>(vocabulary * d, 0.0)}};
  for (std::size_t i = 0; i < dy.size(); ++i) {
    const auto id = static_cast<std::size_t>(ids[i / d]);
    expected.y.push_back(0.5 * w[id * d + i % d]);
    if (id != padding) expected.gradients[0][id * d + i % d] += 0.5 * dy[i];
  }
  CHECK(difference(found, expected) < 1e-12);
}

TEST_CASE("embedding rejects ids outside the vocabulary and weights without two axes") {
  check_error<ValueError>("embedding: id (1, 1) is 5|< 5", [] {
    embedding(zeros({5, 2}), Ids{{0, 1}, {4, 5}});
  });
  check_error<ValueError>("embedding: id (0, 1) is -1", [] {
    embedding(zeros({5, 2}), Ids{{0, -1}});
  });
  check_error<ValueError>("embedding: id (1) is 5", [] {
    embedding(zeros({5, 2}), Ids(Shape{2}, {1, 5}));
  });
  check_error<ShapeError>("embedding: weight|(5)|(vocabulary, d)",
                          [] { embedding(zeros({5}), Ids{{0}}); });
}

TEST_CASE("pack_padded removes padding, and pad_packed fills it with zeros") {
  const Tensor padded =
      exact({3, 3, 1}, {1, 2, not_a_number, not_a_number, not_a_number, not_a_number, 3, 4, 5});
  check_worked({
      worked("pack_padded", [](const Tensor& t) { return pack_padded(t, lengths); }, padded,
             exact({5, 1}, {1, 2, 3, 4, 5}), {10, 20, 30, 40, 50},
             {10, 20, 0, 0, 0, 0, 30, 40, 50}),
      worked("pad_packed", [](const Tensor& t) { return pad_packed(t, lengths, 3); },
             exact({5, 1}, {1, 2, 3, 4, 5}), exact({3, 3, 1}, {1, 2, 0, 0, 0, 0, 3, 4, 5}),
             values_of(padded), {1, 2, 3, 4, 5}),
      worked(
          "a length beyond the end",
          [](const Tensor& t) { return pack_padded(t, std::array<std::int32_t, 1>{9}); },
          exact({1, 2, 1}, {1, 2}), exact({2, 1}, {1, 2})),
      worked(
          "no sentences", [](const Tensor& t) { return pack_padded(t, {}); }, exact({0, 2, 4}, {}),
          exact({0, 4}, {})),
      worked(
          "empty sentences",
          [](const Tensor& t) {
            return pad_packed(t, std::array<std::int32_t, 2>{0, 0}, 1);
          },
          exact({0, 2}, {}), exact({2, 1, 2}, {0, 0, 0, 0})),
  });
  const Tensor x = random_leaf({3, 3, 2}, 1), y = random_leaf({5, 2}, 2);
  CHECK(gradient_error([&] { return square(pack_padded(x, lengths)); }, {x}) < 1e-6);
  CHECK(gradient_error([&] { return square(pad_packed(y, lengths, 3)); }, {y}) < 1e-6);
  check_error<ShapeError>("pack_padded: x|(2, 3, 4)|(3, n, d)|3 lengths", [] {
    pack_padded(zeros({2, 3, 4}), lengths);
  });
  check_error<ShapeError>("pad_packed: y|(4, 2)|(5, d)|3 sentences", [] {
    pad_packed(zeros({4, 2}), lengths, 3);
  });
  check_error<ValueError>("pack_padded: a length is -1", [] {
    pack_padded(zeros({1, 3, 4}), std::array<std::int32_t, 1>{-1});
  });
}
