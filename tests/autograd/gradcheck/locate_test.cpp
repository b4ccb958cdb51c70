#include <doctest/doctest.h>

#include <memory>
#include <vector>

#include "autograd/error.h"
#include "autograd/gradcheck/gradcheck.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/losses.h"
#include "autograd/ops/shape_ops.h"
#include "tests/autograd/gradcheck/faulty_operation.h"
#include "tests/support/gradients.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

/// x * y, with dL/dy = x^2 dL/d(xy).
struct WrongSecond {
  static constexpr const char* name = "wrong_second";
  Tensor x{}, y{};

  Tensor forward(const Tensor& a, const Tensor& b) {
    x = a;
    y = b;
    return product(a, b, 1);
  }
  void backward(const Tensor& dz, Gradient dx, Gradient dy) const {
    if (dx) dx.add(product(dz, y, 1));
    if (dy) dy.add(product(dz, x, 2));
  }

  static Tensor product(const Tensor& a, const Tensor& b, int power) {
    Tensor z = Tensor::empty(a.shape(), DType::float64);
    for (std::size_t i = 0; i < a.size(); ++i) {
      const double factor = b.values<double>()[i];
      z.mutable_values<double>()[i] =
          a.values<double>()[i] * (power == 1 ? factor : factor * factor);
    }
    return z;
  }
};

/// x + y, with gradients that are 2 and 3 times too large.
struct WrongBoth {
  static constexpr const char* name = "wrong_both";

  Tensor forward(const Tensor& a, const Tensor& b) { return a + b; }
  void backward(const Tensor& dz, Gradient dx, Gradient dy) const {
    if (dx) dx.add(2.0 * dz);
    if (dy) dy.add(3.0 * dz);
  }
};

/// Something that cannot be copied, and so cannot run again.
struct Unique {
  static constexpr const char* name = "unique";
  std::unique_ptr<int> own = std::make_unique<int>(0);
  Tensor forward(const Tensor& x) { return x.viewed_as(x.shape()); }
  void backward(const Tensor& dy, Gradient dx) const { dx.add(dy); }
};

GradcheckReport report_of(const std::function<Tensor()>& function, const Tensor& x,
                          const GradcheckOptions& options = {}) {
  const NamedTensor named[] = {{"x", x}};
  return gradcheck(function, named, options);
}

}  // namespace

TEST_CASE("the first wrong operation is named with its place in the run and its layer") {
  const Tensor x = random_leaf({2, 3}, 1);
  static const std::string& path = interned_path("encoder.layers.1.ff");
  const auto report = report_of(
      [&] {
        const Tensor y = square(x);
        const LayerPath here(path);
        return exp(times(times(y, 0.5), 3.0));
      },
      x);
  REQUIRE(report.first_wrong);
  CHECK(report.first_wrong->operation == "faulty");
  CHECK(report.first_wrong->layer_path == "encoder.layers.1.ff");
  CHECK(report.first_wrong->index == 1);
  CHECK(report.first_wrong->recorded == 4);
  CHECK(report.first_wrong->wrong_inputs.at(0).input == 0);
  CHECK(report.first_wrong->inputs == std::vector<Shape>{{2, 3}});
  CHECK(report.first_wrong->wrong_inputs.at(0).row.factor == doctest::Approx(0.5));
}

TEST_CASE("the input with the wrong gradient is named") {
  const Tensor x = random_leaf({3}, 1);
  const auto report = report_of([&] { return apply(WrongSecond{}, exp(x), square(x)); }, x);
  REQUIRE(report.first_wrong);
  CHECK(report.first_wrong->operation == "wrong_second");
  CHECK(report.first_wrong->index == 2);
  REQUIRE(report.first_wrong->wrong_inputs.size() == 1);
  CHECK(report.first_wrong->wrong_inputs.at(0).input == 1);
}

TEST_CASE("all inputs of the first wrong operation whose gradients are wrong are named") {
  const Tensor x = random_leaf({3}, 1);
  const auto report = report_of([&] { return apply(WrongBoth{}, exp(x), square(x)); }, x);
  REQUIRE(report.first_wrong);
  REQUIRE(report.first_wrong->wrong_inputs.size() == 2);
  CHECK(report.first_wrong->wrong_inputs.at(0).input == 0);
  CHECK(report.first_wrong->wrong_inputs.at(0).row.factor == doctest::Approx(2.0));
  CHECK(report.first_wrong->wrong_inputs.at(1).input == 1);
  CHECK(report.first_wrong->wrong_inputs.at(1).row.factor == doctest::Approx(3.0));
}

TEST_CASE("only operations that the wrong output depends on are checked") {
  const Tensor x = random_leaf({3}, 1), y = random_leaf({2}, 2);
  const NamedTensor named[] = {{"x", x}, {"y", y}};
  const auto report = gradcheck_outputs(
      [&] {
        return std::vector<NamedTensor>{{"good", square(exp(x))}, {"bad", times(square(y), 2.0)}};
      },
      named);
  REQUIRE(report.first_wrong);
  CHECK(report.first_wrong->index == 3);
  CHECK(report.first_wrong->recorded == 4);
  CHECK(report.first_wrong->inputs == std::vector<Shape>{{2}});
}

TEST_CASE("inputs without a gradient and absent inputs are not reported as wrong") {
  const Tensor x = random_leaf({3}, 1);
  const Tensor constant = Tensor::full({3}, 2.0, DType::float64);
  CHECK_FALSE(report_of([&] { return apply(WrongSecond{}, x, constant); }, x).first_wrong);
  const auto report = report_of([&] { return apply(WrongSecond{}, constant, x); }, x);
  REQUIRE(report.first_wrong);
  CHECK(report.first_wrong->wrong_inputs.at(0).input == 1);
}

TEST_CASE("a missing gradient is no error if the gradient of the output is zero") {
  const Tensor x = random_leaf({3}, 1);
  const Tensor mask = Tensor::from({3}, {0.0, 1.0, 1.0}, DType::float64);
  const auto leaves_out_first = [](std::size_t i, double g) { return i == 0 ? 0.0 : g; };
  const auto report =
      report_of([&] { return times(faulty(square(x), leaves_out_first) * mask, 2.0); }, x);
  REQUIRE(report.first_wrong);
  CHECK(report.first_wrong->index == 3);
}

TEST_CASE("an operation on a list is checked alone as well") {
  const Tensor x = random_leaf({3}, 1);
  const auto report = report_of(
      [&] {
        const std::vector<Tensor> parts{square(x), exp(x)};
        return times(concat(parts, 0), -1.0);
      },
      x);
  REQUIRE(report.first_wrong);
  CHECK(report.first_wrong->index == 3);
  CHECK(report.first_wrong->operation == "faulty");
}

TEST_CASE("first_wrong is empty if no operation is wrong, or if `locate` is false") {
  const Tensor x = random_leaf({3}, 1);
  CHECK_FALSE(report_of([&] { return square(exp(x)); }, x).first_wrong);
  CHECK_FALSE(report_of([&] { return times(x, 2.0); }, x, {.locate = false}).first_wrong);
}

TEST_CASE("an operation that cannot be copied is left out") {
  const Tensor x = random_leaf({3}, 1);
  const auto report = report_of([&] { return times(apply(Unique{}, x), 2.0); }, x);
  REQUIRE(report.first_wrong);
  CHECK(report.first_wrong->index == 1);
}

TEST_CASE("an operation with a second result runs again to find a wrong gradient") {
  const Tensor logits = random_leaf({1, 2, 3}, 1);
  Ids targets(Shape{1, 2});
  targets(0, 0) = 2;
  targets(0, 1) = 0;
  double nll = 0.0;
  const auto mean_loss = [&] {
    const Loss loss = cross_entropy(times(logits, 2.0), targets);
    nll = loss.nll_sum;
    return loss.mean;
  };
  const auto report = report_of(mean_loss, logits);
  REQUIRE(report.first_wrong);
  CHECK(report.first_wrong->operation == "faulty");
  CHECK(nll > 0.0);
}
