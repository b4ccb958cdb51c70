// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/ops/linear.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <memory>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "autograd/error.h"
#include "autograd/kernels/parallel.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/reductions.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/tape.h"
#include "tests/support/cases.h"
#include "tests/support/gradients.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

/// The shape, with its last two axes swapped if `transposed`.
Shape stored(const Shape& shape, bool transposed) {
  Shape result = shape;
  if (transposed) std::swap(result[shape.rank() - 1], result[shape.rank() - 2]);
  return result;
}

Shape joined(Shape shape, const Shape& more) {
  for (const std::size_t extent : more) shape = shape.inserted(shape.rank(), extent);
  return shape;
}

/// A case of the product of ((1, 2), (3, 4)) and ((5, 6), (7, 8)).
WorkedCase product(const char* name, const MatmulOptions& options, const std::vector<double>& y) {
  return {name,
          {exact({2, 2}, {1, 2, 3, 4}), exact({2, 2}, {5, 6, 7, 8})},
          [=](const Operands& o) { return matmul(o[0], o[1], options); },
          exact({2, 2}, y)};
}

}  // namespace

TEST_CASE("linear, head_linear and matmul give hand-worked products") {
  const auto linear_of = [](const Operands& o) {
    return o.size() == 2 ? linear(o[0], o[1]) : linear(o[0], o[1], o[2]);
  };
  const Tensor x = exact({2, 2}, {1, 1, 1, 0}), w = exact({3, 2}, {1, 2, 3, 4, 5, 6});
  check_worked({
      worked("linear", {x, w}, linear_of, exact({2, 3}, {3, 7, 11, 1, 3, 5})),
      worked("linear with bias", {x, w, exact({0.5, 0, -1})}, linear_of,
             exact({2, 3}, {3.5, 7, 10, 1.5, 3, 4}), {1, 0, 2, 0, 10, 0},
             {{11, 14, 30, 40}, {1, 1, 10, 0, 2, 2}, {1, 10, 2}}),
      worked("linear of any number of axes",
             {exact({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}), exact({1, 2}, {1, 10})}, linear_of,
             exact({2, 2, 1}, {21, 43, 65, 87})),
      worked("linear of a vector", {exact({1, 1}), exact({1, 2}, {1, 10})}, linear_of, exact({11})),
      worked(
          "head_linear",
          {exact({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}), exact({2, 1, 2}, {1, 10, 100, 1000})},
          [](const Operands& o) { return head_linear(o[0], o[1]); },
          exact({2, 2}, {21, 4300, 65, 8700})),
      product("matmul", {}, {19, 22, 43, 50}),
      product("matmul, a transposed", {.transpose_a = true}, {26, 30, 38, 44}),
      product("matmul, b transposed", {.transpose_b = true}, {17, 23, 39, 53}),
      product("matmul, scaled", {.transpose_a = true, .transpose_b = true, .scale = 2.0},
              {46, 62, 68, 92}),
      worked(
          "queries of (1,1) and (1,0) under W = [[1,1],[0,1]]", {x, exact({2, 2}, {1, 1, 0, 1})},
          [](const Operands& o) { return matmul(o[0], o[1]); }, exact({2, 2}, {1, 2, 1, 1})),
      worked("matmul over an empty inner axis", {exact({2, 0}, {}), exact({0, 2}, {})},
             [](const Operands& o) { return matmul(o[0], o[1]); }, exact({2, 2}, {0, 0, 0, 0}),
             {1, 1, 1, 1}, {{}, {}}),
  });
}

TEST_CASE("matmul broadcasts stacks of matrices, in forward and backward") {
  const std::pair<Shape, Shape> batches[] = {
      {{2, 3}, {3}},       {{3}, {2, 3}}, {{2, 1}, {1, 3}},      {{2, 1, 3}, {4, 1}},
      {{4, 1}, {2, 1, 3}}, {{2, 1}, {3}}, {{}, {2, 3}},          {{2, 3}, {}},
      {{1}, {}},           {{0}, {1}},    {{2, 3, 2}, {2, 1, 2}}};
  for (const auto& batch : batches) {
    const Tensor a = random_leaf(joined(batch.first, {2, 4}), 1);
    const Tensor b = random_leaf(joined(batch.second, {4, 3}), 2);
    CAPTURE(to_string(a.shape()));
    CAPTURE(to_string(b.shape()));
    // (..., m, k, 1) * (..., 1, k, n), summed over k.
    const Tensor expected =
        sum(unsqueeze(a, -1) * unsqueeze(b, static_cast<std::ptrdiff_t>(b.rank()) - 2), {-2});
    const Tensor y = matmul(a, b);
    CHECK(y.shape() == expected.shape());
    CHECK(difference(values_of(y), values_of(expected)) < 1e-12);
    CHECK(gradient_error([&] { return matmul(a, b); }, {a, b}) < 1e-6);
  }
}

TEST_CASE(
    "the gradients of matmul agree with finite differences for transposed and batched operands") {
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      const MatmulOptions options{.transpose_a = ta, .transpose_b = tb, .scale = 0.7};
      for (const Shape& batch : {Shape{}, Shape{2}, Shape{1}}) {
        const Tensor a = random_leaf(stored(joined(batch, {3, 4}), ta), 1);
        const Tensor b = random_leaf(stored({2, 4, 5}, tb), 2);
        CAPTURE(to_string(a.shape()));
        CHECK(gradient_error([&] { return matmul(a, b, options); }, {a, b}) < 1e-6);
      }
    }
  }
}

TEST_CASE("linear, head_linear and matmul reject shapes that do not fit") {
  check_error<ShapeError>("linear: x|(32, 10, 64)|last axis 128|(256, 128)", [] {
    linear(zeros({32, 10, 64}), zeros({256, 128}));
  });
  check_error<ShapeError>("linear: weight|(2)|(out, in)", [] { linear(zeros({2}), zeros({2})); });
  check_error<ShapeError>("linear: x|()|last axis 2", [] { linear(zeros({}), zeros({2, 2})); });
  check_error<ShapeError>("linear: bias|(2)|(3)|(3, 2)", [] {
    linear(zeros({2}), zeros({3, 2}), zeros({2}));
  });
  check_error<ShapeError>("head_linear: weight|(4, 4)|(num_heads, out, in)", [] {
    head_linear(zeros({2, 4}), zeros({4, 4}));
  });
  check_error<ShapeError>("head_linear: x|(2, 4)|last axis 8|(2, 4, 4)", [] {
    head_linear(zeros({2, 4}), zeros({2, 4, 4}));
  });
  check_error<ShapeError>("head_linear", [] { head_linear(zeros({}), zeros({1, 1, 1})); });
  const auto product = [](const Shape& a, const Shape& b, const MatmulOptions& options = {}) {
    return [=] { matmul(zeros(a), zeros(b), options); };
  };
  check_error<ShapeError>("matmul: a is (2, 3)|b is (2, 3),|(..., k, n)", product({2, 3}, {2, 3}));
  check_error<ShapeError>("a is (2, 3) and|b is (3, 2) transposed",
                          product({2, 3}, {3, 2}, {.transpose_b = true}));
  check_error<ShapeError>("a is (2, 3) transposed|b is (3, 2),",
                          product({2, 3}, {3, 2}, {.transpose_a = true}));
  check_error<ShapeError>("matmul", product({3, 2}, {2}));
  check_error<ShapeError>("matmul", product({3}, {3, 2}));
  check_error<ShapeError>("matmul", product({2, 2, 3}, {3, 3, 2}));
}
TEST_CASE("packed weights of any number and shape give bit-identical results") {
  for (const DType dtype : dtypes) {
    for (const std::size_t rows : {1, 2, 5, 64}) {
      const Tensor a = random_leaf({33, 40}, 1).detach().to(dtype),
                   b = random_leaf({7, 40}, 2).detach().to(dtype);
      const Tensor x = random_leaf({rows, 40}, 3).detach().to(dtype);
      const Tensor same_memory = a.viewed_as({66, 20}),
                   narrow = random_leaf({rows, 20}, 4).detach().to(dtype);
      const Tensor bias = random_leaf({33}, 5).detach().to(dtype),
                   empty = Tensor::zeros({0, 40}, dtype);
      const auto results = [&] {
        return std::vector{values_of(linear(x, a)),       values_of(linear(x, b)),
                           values_of(linear(x, a, bias)), values_of(linear(narrow, same_memory)),
                           values_of(linear(x, empty)),   values_of(linear(x, a))};
      };
      const auto expected = results();
      const PackedWeights packed;
      CHECK(results() == expected);
    }
  }
}

TEST_CASE("packed weights are kept by the outermost scope and released at its end") {
  Tensor w = random_leaf({8, 8}, 1).detach().to(DType::float32);
  const Tensor x = random_leaf({3, 8}, 2).detach().to(DType::float32);
  const auto before = values_of(linear(x, w));
  {
    const PackedWeights packed;
    CHECK(values_of(linear(x, w)) == before);
    PackedWeights* const outer = execution_context().packed_weights;
    {
      const PackedWeights inner;
      CHECK(execution_context().packed_weights == outer);
    }
    CHECK(execution_context().packed_weights == outer);
  }
  CHECK(execution_context().packed_weights == nullptr);
  for (float& value : w.mutable_values<float>()) value *= 2;
  std::vector<double> twice = before;
  for (double& value : twice) value *= 2;
  const PackedWeights packed;
  CHECK(values_of(linear(x, w)) == twice);
}

TEST_CASE("threads that need the same weights at the same time pack each weight once") {
  constexpr std::size_t num_threads = 4, num_weights = 200;
  std::vector<Tensor> weights;
  for (std::size_t i = 0; i < num_weights; ++i) weights.push_back(Tensor::zeros({1}));
  PackedWeights packed;
  std::vector<std::atomic<int>> copies(num_weights);
  std::atomic<bool> all_found = true;
  std::barrier start(num_threads);
  {
    std::vector<std::jthread> threads;
    for (std::size_t thread = 0; thread < num_threads; ++thread) {
      threads.emplace_back([&] {
        start.arrive_and_wait();
        for (std::size_t i = 0; i < num_weights; ++i) {
          const auto copy = packed.find<std::size_t>(weights[i], [&] { return ++copies[i], i; });
          if (*copy != i) all_found = false;
        }
      });
    }
  }
  CHECK(all_found);
  CHECK(std::ranges::all_of(copies, [](const std::atomic<int>& count) { return count == 1; }));
}

TEST_CASE("if packing a weight fails, its next use packs it again") {
  const Tensor w = Tensor::zeros({2, 2});
  PackedWeights packed;
  const auto fail = []() -> int { throw std::bad_alloc(); };
  CHECK_THROWS_AS(packed.find<int>(w, fail), std::bad_alloc);
  CHECK(*packed.find<int>(w, [] { return 7; }) == 7);
}

TEST_CASE("threads share the weights that one of them has packed") {
  const Tensor w = random_leaf({8, 8}, 1).detach().to(DType::float32);
  const Tensor x = random_leaf({3, 8}, 2).detach().to(DType::float32);
  const PackedWeights packed;
  std::atomic<int> copies = 0;
  const auto pack = [&] { return ++copies; };
  const std::shared_ptr<const int> own = execution_context().packed_weights->find<int>(w, pack);
  std::thread([&, outer = execution_context().packed_weights] {
    {
      const PackedWeights shared(outer);
      CHECK(execution_context().packed_weights == outer);
      CHECK(execution_context().packed_weights->find<int>(w, pack) == own);
    }
    CHECK(execution_context().packed_weights == nullptr);
    const PackedWeights separate(nullptr);
    CHECK(execution_context().packed_weights == &separate);
  }).join();
  CHECK(copies == 1);
}
