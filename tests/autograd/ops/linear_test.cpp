#include "autograd/ops/linear.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "autograd/error.h"
#include "autograd/kernels/parallel.h"
#include "autograd/tape.h"
#include "tests/support/gradients.h"
#include "tests/support/threads.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

TEST_CASE("linear multiplies by the transposed weight and adds the bias") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::from({2, 2}, {1, 1, 1, 0}, dtype);
    const Tensor w = Tensor::from({3, 2}, {1, 2, 3, 4, 5, 6}, dtype);
    const Tensor b = Tensor::from({3}, {0.5, 0, -1}, dtype);
    check_values(linear(x, w, b), {3.5, 7, 10, 1.5, 3, 4});
    check_values(linear(x, w), {3, 7, 11, 1, 3, 5});
  }
}

TEST_CASE("linear maps the last axis of any number of axes") {
  const Tensor w = Tensor::from({1, 2}, {1, 10}, DType::float64);
  const Tensor x = Tensor::from({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}, DType::float64);
  const Tensor y = linear(x, w);
  CHECK(y.shape() == Shape{2, 2, 1});
  check_values(y, {21, 43, 65, 87});
  CHECK(linear(Tensor::from({2}, {1, 1}, DType::float64), w).shape() == Shape{1});
  CHECK(linear(Tensor::zeros({0, 2}, DType::float64), w).shape() == Shape{0, 1});
}

TEST_CASE("the gradients of linear agree with differences") {
  for (const std::size_t in : {1, 7, 16}) {
    const Tensor x = random_leaf({2, 5, in}, 1);
    const Tensor w = random_leaf({3, in}, 2);
    const Tensor b = random_leaf({3}, 3);
    CHECK(gradient_error([&] { return linear(x, w, b); }, {x, w, b}) < 1e-6);
    CHECK(gradient_error([&] { return linear(x, w); }, {x, w}) < 1e-6);
  }
}

TEST_CASE("linear of a tensor with itself adds both gradients") {
  const Tensor x = random_leaf({3, 3}, 1);
  CHECK(gradient_error([&] { return linear(x, x); }, {x}) < 1e-6);
}

TEST_CASE("linear computes only the gradients that are required") {
  const Tensor x = Tensor::full({2, 2}, 1.0, DType::float64);
  const Tensor w = random_leaf({2, 2}, 1);
  Tape tape;
  tape.backward(linear(x, w), Tensor::full({2, 2}, 1.0, DType::float64));
  check_values(w.gradient(), {2, 2, 2, 2});
  CHECK_FALSE(x.requires_gradient());
}

TEST_CASE("a large linear map has the same bits on any number of threads") {
  const auto run = [](std::size_t threads) {
    kernels::set_num_threads(threads);
    const Tensor x = random_leaf({300, 70}, 1).copied(DType::float32).require_gradient();
    const Tensor w = random_leaf({90, 70}, 2).copied(DType::float32).require_gradient();
    const Tensor b = random_leaf({90}, 3).copied(DType::float32).require_gradient();
    Tape tape;
    const Tensor y = linear(x, w, b);
    tape.backward(y, y);
    std::vector<double> all;
    for (const Tensor& t : {y, x.gradient(), w.gradient(), b.gradient()}) {
      const auto values = values_of(t);
      all.insert(all.end(), values.begin(), values.end());
    }
    kernels::set_num_threads(0);
    return all;
  };
  const auto one = run(1);
  CHECK(one == run(2));
  CHECK(one == run(5));
}

TEST_CASE("linear refuses shapes that do not fit, with the expected shape") {
  const auto zeros = [](const Shape& shape) { return Tensor::zeros(shape, DType::float32); };
  CHECK_THROWS_WITH_AS(
      linear(zeros({32, 10, 64}), zeros({256, 128})),
      "linear: x has shape (32, 10, 64), expected last axis 128 (weight is (256, 128))",
      ShapeError);
  CHECK_THROWS_WITH_AS(linear(zeros({2}), zeros({2})),
                       "linear: weight has shape (2), expected (out, in)", ShapeError);
  CHECK_THROWS_WITH_AS(linear(zeros({}), zeros({2, 2})),
                       "linear: x has shape (), expected last axis 2 (weight is (2, 2))",
                       ShapeError);
  CHECK_THROWS_WITH_AS(linear(zeros({2}), zeros({3, 2}), zeros({2})),
                       "linear: bias has shape (2), expected (3) (weight is (3, 2))", ShapeError);
  CHECK_THROWS_AS(linear(zeros({2}), Tensor::zeros({3, 2}, DType::float64)), DTypeError);
}

TEST_CASE("head_linear multiplies each head by the transpose of its own weight") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::from({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}, dtype);
    const Tensor w = Tensor::from({2, 1, 2}, {1, 10, 100, 1000}, dtype);
    const Tensor y = head_linear(x, w);
    CHECK(y.shape() == Shape{2, 2});
    check_values(y, {21, 4300, 65, 8700});
  }
}

TEST_CASE("head_linear of one head is linear, of any number of axes") {
  const Tensor x = random_leaf({2, 3, 4}, 1), w = random_leaf({1, 5, 4}, 2);
  CHECK(values_of(head_linear(x, w)) == values_of(linear(x, w.viewed_as({5, 4}))));
  CHECK(head_linear(Tensor::zeros({0, 4}, DType::float64), w).shape() == Shape{0, 5});
}

TEST_CASE("the gradients of head_linear agree with differences") {
  const Tensor x = random_leaf({2, 3, 6}, 1), w = random_leaf({2, 4, 3}, 2);
  CHECK(gradient_error([&] { return head_linear(x, w); }, {x, w}) < 1e-6);
  const Tensor square = random_leaf({1, 3, 3}, 3);
  CHECK(gradient_error([&] { return head_linear(square, square); }, {square}) < 1e-6);
}

TEST_CASE("head_linear computes only the gradients that are required") {
  const Tensor x = Tensor::full({2, 2}, 1.0, DType::float64);
  const Tensor w = random_leaf({2, 1, 1}, 1);
  Tape tape;
  tape.backward(head_linear(x, w), Tensor::from({2, 2}, {1, 2, 3, 4}, DType::float64));
  check_values(w.gradient(), {4, 6});
}

TEST_CASE("head_linear has the same bits on any number of threads") {
  const Tensor x = random_leaf({300, 64}, 1).copied(DType::float32).require_gradient();
  const Tensor w = random_leaf({4, 16, 16}, 2).copied(DType::float32).require_gradient();
  CHECK(same_on_any_number_of_threads([&] {
    Tape tape;
    const Tensor y = head_linear(x, w);
    tape.backward(y, y);
    const std::vector results{values_of(y), values_of(x.gradient()), values_of(w.gradient())};
    for (Tensor leaf : {x, w}) leaf.clear_gradient();
    return results;
  }));
}

TEST_CASE("head_linear refuses shapes that do not fit") {
  const auto of = [](const Shape& shape) { return Tensor::zeros(shape, DType::float32); };
  CHECK_THROWS_WITH_AS(head_linear(of({2, 4}), of({4, 4})),
                       "head_linear: weight has shape (4, 4), expected (num_heads, out, in)",
                       ShapeError);
  CHECK_THROWS_WITH_AS(
      head_linear(of({2, 4}), of({2, 4, 4})),
      "head_linear: x has shape (2, 4), expected last axis 8 (weight is (2, 4, 4))", ShapeError);
  CHECK_THROWS_AS(head_linear(of({}), of({1, 1, 1})), ShapeError);
}

TEST_CASE("packed weights of any number and shape give the same bits") {
  for (const DType dtype : dtypes) {
    for (const std::size_t rows : {1, 2, 5, 64}) {
      const Tensor a = random_leaf({33, 40}, 1).copied(dtype),
                   b = random_leaf({7, 40}, 2).copied(dtype);
      const Tensor x = random_leaf({rows, 40}, 3).copied(dtype);
      const Tensor same_memory = a.viewed_as({66, 20}),
                   narrow = random_leaf({rows, 20}, 4).copied(dtype);
      const Tensor bias = random_leaf({33}, 5).copied(dtype), empty = Tensor::zeros({0, 40}, dtype);
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
  Tensor w = random_leaf({8, 8}, 1).copied(DType::float32);
  const Tensor x = random_leaf({3, 8}, 2).copied(DType::float32);
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

TEST_CASE("threads that need the same weights at the same time pack each of them once") {
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

TEST_CASE("a weight that could not be packed is packed at its next use") {
  const Tensor w = Tensor::zeros({2, 2});
  PackedWeights packed;
  const auto fail = []() -> int { throw std::bad_alloc(); };
  CHECK_THROWS_AS(packed.find<int>(w, fail), std::bad_alloc);
  CHECK(*packed.find<int>(w, [] { return 7; }) == 7);
}

TEST_CASE("threads share the packed weights of one of them") {
  const Tensor w = random_leaf({8, 8}, 1).copied(DType::float32);
  const Tensor x = random_leaf({3, 8}, 2).copied(DType::float32);
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
