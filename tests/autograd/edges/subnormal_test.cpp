#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "autograd/ops/activations.h"
#include "autograd/ops/attention.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/linear.h"
#include "autograd/ops/losses.h"
#include "autograd/ops/norms.h"
#include "autograd/ops/reductions.h"
#include "autograd/tape.h"
#include "tests/autograd/edges/every_operation.h"
#include "tests/support/threads.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

/// The smallest normal number of either type, and its smallest subnormal one.
double least_normal(DType dtype) {
  return dispatch(dtype,
                  []<class T>() { return static_cast<double>(std::numeric_limits<T>::min()); });
}
double least(DType dtype) {
  return dispatch(
      dtype, []<class T>() { return static_cast<double>(std::numeric_limits<T>::denorm_min()); });
}

Tensor filled(const Shape& shape, double value, DType dtype) {
  return Tensor::full(shape, value, dtype);
}

/// The operation's value at x, in a full vector and in a tail.
double value_at(const OperationCase& operation, double x, DType dtype) {
  const auto y = values_of(operation.run({filled({35}, x, dtype)}));
  CHECK(y.front() == y.back());
  return y.front();
}

OperationCase elementwise(const std::string& name) {
  for (const OperationCase& operation : every_elementwise_operation({35})) {
    if (operation.name == name) return operation;
  }
  FAIL("there is no operation " << name);
  return {};
}

}  // namespace

TEST_CASE("operations that are near the identity at 0 keep subnormal numbers") {
  for (const DType dtype : dtypes) {
    for (const double x : {least_normal(dtype) / 4, -least_normal(dtype) / 4}) {
      CHECK(value_at(elementwise("neg"), x, dtype) == -x);
      CHECK(value_at(elementwise("scale"), x, dtype) == -2.5 * x);
      CHECK(value_at(elementwise("relu"), x, dtype) == std::max(x, 0.0));
      CHECK(value_at(elementwise("tanh"), x, dtype) == x);
      CHECK(value_at(elementwise("gelu"), x, dtype) == x / 2);
      CHECK(value_at(elementwise("gelu_tanh"), x, dtype) == x / 2);
      CHECK(value_at(elementwise("sigmoid"), x, dtype) == 0.5);
      CHECK(value_at(elementwise("exp"), x, dtype) == 1.0);
      CHECK(value_at(elementwise("square"), x, dtype) == 0.0);
      CHECK(value_at(elementwise("pow 3"), x, dtype) == 0.0);
    }
  }
}

TEST_CASE("sqrt, log and div of subnormal numbers are as exact as of normal numbers") {
  for (const DType dtype : dtypes) {
    const double x = least_normal(dtype) / 16;
    CHECK(values_of(sqrt(filled({35}, 4 * x, dtype))) == std::vector<double>(35, std::sqrt(4 * x)));
    CHECK(values_of(div(filled({35}, x, dtype), filled({}, 0.5, dtype))) ==
          std::vector<double>(35, 2 * x));
    check_values(div(filled({35}, x, dtype), filled({35}, x / 2, dtype)),
                 std::vector<double>(35, 2.0));
    check_values(log(filled({35}, x, dtype)), std::vector<double>(35, std::log(x)), 1e-6);
  }
}

TEST_CASE("exp reaches 0 through the subnormal numbers without a jump") {
  for (const DType dtype : dtypes) {
    const double edge = std::log(least_normal(dtype));
    for (double x = edge - 40; x < edge + 1; x += 0.125) {
      CAPTURE(x);
      const double rounded = filled({}, x, dtype).item();
      const double y = exp(filled({}, x, dtype)).item();
      CHECK(std::abs(y - std::exp(rounded)) <= 1.01 * least_normal(dtype));
      CHECK(y >= 0.0);
    }
  }
}

TEST_CASE(
    "the gradients of quotients of subnormal numbers are right where the check is conclusive") {
  for (const DType dtype : dtypes) {
    const double x = least_normal(dtype) / 16;
    const Tensor a = filled({35}, x, dtype).require_gradient();
    const Tensor b = filled({35}, 2.0, dtype).require_gradient();
    Tape tape;
    tape.backward(div(a, b), filled({35}, 1.0, dtype));
    check_values(a.gradient(), std::vector<double>(35, 0.5));
    CHECK(values_of(b.gradient())[0] == -x / 4);
    CHECK(values_of(b.gradient())[34] == -x / 4);
  }
}

TEST_CASE("softmax and its gradient are right for subnormal logits and subnormal weights") {
  for (const DType dtype : dtypes) {
    const double tiny = least(dtype);
    check_values(softmax(Tensor::from({4}, {tiny, -tiny, 0.0, 2 * tiny}, dtype)),
                 {0.25, 0.25, 0.25, 0.25});
    check_values(log_softmax(Tensor::from({2}, {tiny, -tiny}, dtype)),
                 {-std::log(2.0), -std::log(2.0)}, tolerance(dtype));

    const double far = std::log(least_normal(dtype)) - 2;  // e^far is subnormal
    const Tensor x = Tensor::from({2}, {0.0, far}, dtype).require_gradient();
    Tape tape;
    const Tensor y = softmax(x);
    CHECK(values_of(y)[0] == 1.0);
    CHECK(std::abs(values_of(y)[1] - std::exp(far)) <= least_normal(dtype));
    tape.backward(y, Tensor::from({2}, {1.0, 3.0}, dtype));
    CHECK(std::abs(values_of(x.gradient())[0]) <= 4 * least_normal(dtype));
    CHECK(std::abs(values_of(x.gradient())[1]) <= 4 * least_normal(dtype));
  }
}

TEST_CASE("layer norm treats rows of subnormal numbers as equal values, in its gradient too") {
  for (const DType dtype : dtypes) {
    const double tiny = least_normal(dtype) / 4;
    const Tensor x = Tensor::from({2, 2}, {tiny, -tiny, tiny, 3 * tiny}, dtype).require_gradient();
    const Tensor ones = filled({2}, 1.0, dtype);
    Tape tape;
    const Tensor y = layer_norm(x, ones, filled({2}, 0.0, dtype), 0.25);  // 1 / sqrt(0.25) = 2
    check_values(y, {0.0, 0.0, 0.0, 0.0});
    tape.backward(y, Tensor::from({2, 2}, {1.0, 3.0, 5.0, 5.0}, dtype));
    check_values(x.gradient(), {-2.0, 2.0, 0.0, 0.0}, tolerance(dtype));
  }
}

TEST_CASE("sums, products, lookups and attention do not flush subnormal numbers to 0") {
  for (const DType dtype : dtypes) {
    const double tiny = least_normal(dtype) / 64;
    CHECK(sum(filled({40}, tiny, dtype)).item() == 40 * tiny);
    CHECK(values_of(sum(filled({5, 40}, tiny, dtype), {0}))[39] == 5 * tiny);
    CHECK(values_of(linear(filled({3, 20}, tiny, dtype), filled({4, 20}, 1.0, dtype)))[11] ==
          20 * tiny);
    CHECK(values_of(embedding(filled({2, 35}, tiny, dtype), Ids{{1}}))[34] == tiny);
    const Tensor zeros = filled({1, 4, 8}, 0.0, dtype);
    CHECK(values_of(scaled_dot_product_attention(zeros, zeros,
                                                 filled({1, 4, 8}, tiny, dtype)))[0] == tiny);
  }
}

TEST_CASE("cross entropy of subnormal logits equals that of equal logits") {
  for (const DType dtype : dtypes) {
    const Tensor logits = filled({1, 2, 20}, least(dtype), dtype).require_gradient();
    Tape tape;
    const Tensor loss = cross_entropy(logits, Ids{{3, 4}}).mean;
    check_values(loss, {std::log(20.0)}, tolerance(dtype));
    tape.backward(loss);
    CHECK(values_of(logits.gradient())[0] == doctest::Approx(0.025));
  }
}

TEST_CASE("no thread of a kernel flushes subnormal numbers to 0") {
  const Threads count(4);
  for (const DType dtype : dtypes) {
    const double x = least(dtype);
    const std::size_t n = 200003;
    CHECK(values_of(elementwise("neg").run({filled({n}, x, dtype)})) == std::vector<double>(n, -x));
  }
}
