#include "autograd/kernels/broadcast.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

#include "autograd/kernels/elementwise.h"
#include "autograd/kernels/parallel.h"
#include "tests/support/threads.h"

namespace tapestry::kernels {

namespace {

using Extents = std::vector<std::size_t>;

BroadcastPlan plan_of(const Extents& result, const Extents& a, const Extents& b) {
  return {result, a, b};
}

Extents extents_of(const BroadcastPlan& plan) {
  return {plan.extents.begin(), plan.extents.begin() + static_cast<std::ptrdiff_t>(plan.axes)};
}

std::vector<float> count_up(std::size_t n) {
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<float>(i % 1000) * 0.5F;
  return values;
}

constexpr Function minus{Binary::sub};

}  // namespace

TEST_CASE("equal shapes are one row") {
  const BroadcastPlan plan = plan_of({2, 3, 4}, {2, 3, 4}, {2, 3, 4});
  CHECK(extents_of(plan) == Extents{24});
  CHECK(plan.rows() == 1);
  CHECK(plan.row_length() == 24);
  CHECK(plan.a_strides[0] == 1);
  CHECK(plan.b_strides[0] == 1);
}

TEST_CASE("a single value repeats with stride 0 along one row") {
  const BroadcastPlan plan = plan_of({2, 3}, {2, 3}, {1, 1});
  CHECK(extents_of(plan) == Extents{6});
  CHECK(plan.a_strides[0] == 1);
  CHECK(plan.b_strides[0] == 0);
}

TEST_CASE("a bias repeats over all leading axes at once") {
  const BroadcastPlan plan = plan_of({2, 5, 3}, {2, 5, 3}, {1, 1, 3});
  CHECK(extents_of(plan) == Extents{10, 3});
  CHECK(plan.rows() == 10);
  CHECK(plan.row_offsets(4) == std::array<std::size_t, 2>{12, 0});
}

TEST_CASE("broadcast axes merge only if the strides of both operands allow it") {
  const BroadcastPlan plan = plan_of({2, 3, 4}, {2, 1, 4}, {1, 3, 4});
  CHECK(extents_of(plan) == Extents{2, 3, 4});
  CHECK(plan.row_offsets(5) == std::array<std::size_t, 2>{4, 8});
}

TEST_CASE("axes of extent 1 are dropped, and one element is a row of one") {
  CHECK(extents_of(plan_of({1, 2, 1, 3}, {1, 2, 1, 3}, {1, 1, 1, 3})) == Extents{2, 3});
  const BroadcastPlan one = plan_of({1, 1}, {1, 1}, {1, 1});
  CHECK(extents_of(one) == Extents{1});
  CHECK(one.rows() == 1);
  CHECK(extents_of(plan_of({}, {}, {})) == Extents{1});
}

TEST_CASE("a broadcast of a long row is right across the borders of its pieces") {
  constexpr std::size_t n = 2 * elements_per_piece + 77;
  const std::vector<float> a = count_up(n);
  const std::vector<float> b = {3.0F};
  for (const std::size_t threads : {1, 2}) {
    const test::Threads count(threads);
    std::vector<float> y(n, -1.0F), z(n, -1.0F);
    broadcast_binary(minus, plan_of({n}, {n}, {1}), y.data(), a.data(), b.data());
    broadcast_binary(minus, plan_of({n}, {1}, {n}), z.data(), b.data(), a.data());
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < n; ++i) wrong += y[i] != a[i] - 3.0F || z[i] != 3.0F - a[i];
    CHECK(wrong == 0);
  }
}

TEST_CASE("a broadcast of many rows is right across the borders of their pieces") {
  constexpr std::size_t rows = 1500, columns = 33;
  const std::vector<float> a = count_up(rows * columns);
  const std::vector<float> bias = count_up(columns);
  const std::vector<float> column = count_up(rows);
  for (const std::size_t threads : {1, 2}) {
    const test::Threads count(threads);
    std::vector<float> y(rows * columns), z(rows * columns);
    broadcast_binary(minus, plan_of({rows, columns}, {rows, columns}, {1, columns}), y.data(),
                     a.data(), bias.data());
    broadcast_binary(minus, plan_of({rows, columns}, {rows, columns}, {rows, 1}), z.data(),
                     a.data(), column.data());
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < rows * columns; ++i) {
      wrong += y[i] != a[i] - bias[i % columns] || z[i] != a[i] - column[i / columns];
    }
    CHECK(wrong == 0);
  }
}

}  // namespace tapestry::kernels
