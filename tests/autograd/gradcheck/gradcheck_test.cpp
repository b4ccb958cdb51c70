#include "autograd/gradcheck/gradcheck.h"
#include "autograd/frozen_branches.h"

#include <doctest/doctest.h>

#include <cstdint>

#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "autograd/error.h"
#include "autograd/operation.h"
#include "autograd/ops/activations.h"
#include "autograd/ops/dropout.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/reductions.h"
#include "tests/support/gradients.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

enum class Fault { none, zeros, sign, factor, not_a_number };

/// |x|, which does not use FrozenBranches.
struct AbsoluteValue {
  static constexpr const char* name = "absolute_value";
  Tensor x{};

  Tensor forward(const Tensor& input) {
    x = input;
    std::vector<double> y = values_of(x);
    for (double& value : y) value = std::abs(value);
    return Tensor::from(x.shape(), y, DType::float64);
  }
  void backward(const Tensor& dy, Gradient dx) const {
    const auto g = dy.values<double>();
    const kernels::Target<double> out = dx.target<double>();
    for (std::size_t i = 0; i < g.size(); ++i) out.put(i, x.values<double>()[i] < 0 ? -g[i] : g[i]);
  }
};

/// Softmax of one row, with a gradient that is wrong in one way.
struct FaultySoftmax {
  static constexpr const char* name = "faulty_softmax";
  Fault fault;
  double factor = 1.001;
  Tensor y{};

  Tensor forward(const Tensor& x) {
    const NoGrad only_this_operation_is_recorded;
    return y = softmax(x);
  }

  void backward(const Tensor& dy, Gradient dx) const {
    const auto p = y.values<double>();
    const auto g = dy.values<double>();
    const kernels::Target<double> out = dx.target<double>();
    double mean = 0.0;
    for (std::size_t i = 0; i < p.size(); ++i) mean += p[i] * g[i];
    for (std::size_t i = 0; i < p.size(); ++i) out.put(i, spoiled(i, p[i] * (g[i] - mean)));
  }

  double spoiled(std::size_t i, double derivative) const {
    switch (fault) {
      case Fault::none:
        return derivative;
      case Fault::zeros:
        return 0.0;
      case Fault::sign:
        return -derivative;
      case Fault::factor:
        return factor * derivative;
      case Fault::not_a_number:
        return i == 3 ? std::numeric_limits<double>::quiet_NaN() : derivative;
    }
    return derivative;
  }
};

/// Passes x on, with a gradient half too large at coordinate 4.
struct OneWrong {
  static constexpr const char* name = "one_wrong";
  Tensor forward(const Tensor& x) { return x.viewed_as(x.shape()); }
  void backward(const Tensor& dy, Gradient dx) const {
    const auto g = dy.values<double>();
    const kernels::Target<double> out = dx.target<double>();
    for (std::size_t i = 0; i < g.size(); ++i) out.put(i, i == 4 ? 1.5 * g[i] : g[i]);
  }
};

/// Passes x on, with a gradient that is right for positive upstream gradients alone.
struct RightForPositive {
  static constexpr const char* name = "right_for_positive";
  Tensor forward(const Tensor& x) { return x.viewed_as(x.shape()); }
  void backward(const Tensor& dy, Gradient dx) const {
    const auto g = dy.values<double>();
    const kernels::Target<double> out = dx.target<double>();
    for (std::size_t i = 0; i < g.size(); ++i) out.put(i, std::abs(g[i]));
  }
};

/// Passes x on, with a gradient of 3 dy, which it computes in the memory of dy: in the checker's
/// own output weights, if they were given to the tape.
struct InPlace {
  static constexpr const char* name = "in_place";
  bool past_the_handle;  ///< writes to the memory of dy, without mutable_values()

  Tensor forward(const Tensor& x) { return x.copied(DType::float64); }
  void backward(const Tensor& dy, Gradient dx) const {
    Tensor handle = dy;
    const std::span<double> g =
        past_the_handle
            ? std::span(reinterpret_cast<double*>(dy.memory().data() + dy.byte_offset()), dy.size())
            : handle.mutable_values<double>();
    for (double& value : g) value *= 3.0;
    dx.add(dy);
  }
};

/// What gradcheck finds for a softmax of n values with this fault.
GradcheckRow row_with(const FaultySoftmax& softmax, std::size_t n = 6,
                      const GradcheckOptions& options = {}) {
  const Tensor x = random_leaf({n}, 1);
  const NamedTensor named[] = {{"x", x}};
  return gradcheck([&] { return apply(softmax, x); }, named, options).rows[0];
}

void check_is_caught(const GradcheckRow& row) {
  CHECK(row.worst_relative_error > 1e-4);
  CHECK(row.verdict == GradcheckVerdict::wrong);
}

}  // namespace

TEST_CASE("gradcheck accepts a right gradient") {
  const GradcheckRow row = row_with({Fault::none});
  CHECK(row.worst_relative_error < 1e-9);
  CHECK(row.verdict == GradcheckVerdict::agrees);
  CHECK(row.coordinates.inconclusive == 0);
}

TEST_CASE("gradcheck catches a softmax whose gradient is all zeros") {
  check_is_caught(row_with({Fault::zeros}));
}

TEST_CASE("gradcheck catches a wrong sign") { check_is_caught(row_with({Fault::sign})); }

TEST_CASE("gradcheck catches a factor of 1.001") { check_is_caught(row_with({Fault::factor})); }

TEST_CASE("gradcheck calls relative errors of 1e-4 and of 3e-6 wrong, not inconclusive") {
  for (const double error : {1e-4, 3e-6}) {
    const GradcheckRow row = row_with({Fault::factor, 1.0 + error});
    CHECK(row.worst_relative_error == doctest::Approx(error).epsilon(0.1));
    CHECK(row.verdict == GradcheckVerdict::wrong);
  }
}

TEST_CASE("gradcheck catches a gradient that is wrong for negative upstream gradients alone") {
  const Tensor x = random_leaf({16}, 1);
  const NamedTensor named[] = {{"x", x}};
  check_is_caught(gradcheck([&] { return apply(RightForPositive{}, x); }, named).rows[0]);
}

TEST_CASE("gradcheck catches NaN in one element, also one that is not sampled") {
  check_is_caught(row_with({Fault::not_a_number}));
  check_is_caught(row_with({Fault::not_a_number}, 5000, {.max_coordinates = 1}));
}

TEST_CASE("gradcheck names an operation that writes to dL/dy, through a tensor or its memory") {
  const Tensor x = random_leaf({6}, 1);
  CHECK_THROWS_WITH_AS(gradient_error([&] { return apply(InPlace{false}, x); }, {x}),
                       "in_place: backward writes to dL/dy, expected it to be only read: other "
                       "operations share its memory, so write to dy.copied(dy.dtype())",
                       ValueError);
  CHECK_THROWS_WITH_AS(gradient_error([&] { return square(apply(InPlace{true}, x)); }, {x}),
                       "in_place: backward has changed the values of dL/dy, expected it to be only "
                       "read: other operations share its memory",
                       ValueError);
}

TEST_CASE("gradcheck fails if all comparisons are inconclusive or too small") {
  const Tensor at_kinks = Tensor::zeros({3}, DType::float64).require_gradient();
  const Tensor x = random_leaf({3}, 1);
  const GradcheckReport nothing = gradcheck([&] { return relu(at_kinks); }, {{"x", at_kinks}});
  CHECK(nothing.rows[0].verdict == GradcheckVerdict::inconclusive);
  CHECK(nothing.worst_relative_error() == std::numeric_limits<double>::infinity());
  CHECK_FALSE(nothing.passed());
  CHECK(
      to_string(nothing).find("no gradient could be checked: all comparisons are inconclusive\n") !=
      std::string::npos);
  const GradcheckReport half =
      gradcheck([&] { return relu(at_kinks) + x; }, {{"kinks", at_kinks}, {"x", x}});
  CHECK(half.passed());
  CHECK(half.worst_relative_error() == std::numeric_limits<double>::infinity());
  CHECK(to_string(half).find("no gradient could be checked") == std::string::npos);
}

TEST_CASE("a report passes if no row is wrong and at least one comparison is conclusive") {
  using enum GradcheckVerdict;
  const auto passed = [](std::initializer_list<GradcheckVerdict> verdicts) {
    GradcheckReport report;
    for (const GradcheckVerdict verdict : verdicts) report.rows.push_back({.verdict = verdict});
    return report.passed();
  };
  CHECK(passed({}));
  CHECK(passed({agrees, agrees}));
  CHECK(passed({agrees, inconclusive}));
  CHECK(passed({agrees, too_small}));
  CHECK_FALSE(passed({too_small, inconclusive}));
  GradcheckReport small;
  small.rows.push_back({.directions = {.checked = 3}, .verdict = too_small});
  CHECK_FALSE(small.passed());
  CHECK_FALSE(passed({inconclusive, inconclusive}));
  CHECK_FALSE(passed({agrees, wrong}));
  CHECK_FALSE(passed({wrong}));
  GradcheckReport partly;
  partly.rows.push_back({.directions = {.checked = 2, .inconclusive = 2}, .verdict = inconclusive});
  CHECK_FALSE(partly.passed());
  partly.rows[0].coordinates = {.checked = 3, .inconclusive = 2};
  CHECK(partly.passed());
}

TEST_CASE("gradcheck counts its verdicts and has a name for each") {
  const Tensor x = random_leaf({6}, 1);
  const Tensor y = random_leaf({6}, 2);
  const NamedTensor named[] = {{"x", x}, {"y", y}};
  const GradcheckReport report =
      gradcheck([&] { return apply(FaultySoftmax{Fault::sign}, x) * y; }, named);
  CHECK(report.count(GradcheckVerdict::wrong) == 1);
  CHECK(report.count(GradcheckVerdict::agrees) == 1);
  CHECK(report.count(GradcheckVerdict::inconclusive) == 0);
  CHECK(std::string(name(GradcheckVerdict::wrong)) == "wrong");
  CHECK(std::string(name(GradcheckVerdict::too_small)) == "too small");
}

TEST_CASE("gradcheck freezes the branches of relu and max, however near their kinks are") {
  const Tensor x =
      Tensor::from({2, 4}, {1e-9, -1e-9, 1.0, -1.0, 2e-9, -2.0, 1.0 + 1e-9, 2.0}, DType::float64)
          .require_gradient();
  const RandomStream stream = RandomStream(1).named("dropout");
  CHECK(gradient_error([&] { return relu(x); }, {x}) < 1e-9);
  CHECK(gradient_error([&] { return relu_dropout(x, 0.3, stream); }, {x}) < 1e-9);
  CHECK(gradient_error([&] { return square(max(x, {0})); }, {x}) < 1e-9);
}

TEST_CASE("gradcheck uses shorter steps near the kink of a custom operation") {
  const Tensor x = Tensor::from({4}, {1e-4, -1e-4, 1.0, -1.0}, DType::float64).require_gradient();
  CHECK(gradient_error([&] { return apply(AbsoluteValue{}, x); }, {x}) < 1e-6);
  // So near that only the last and shortest steps stay on one side.
  const Tensor nearer = Tensor::from({2}, {1e-5, -1e-5}, DType::float64).require_gradient();
  CHECK(gradient_error([&] { return apply(AbsoluteValue{}, nearer); }, {nearer}) < 1e-6);
}

TEST_CASE("gradcheck refuses a function that differs when branches are frozen") {
  const Tensor x = random_leaf({6}, 1);
  const auto two_faced = [&] {
    return execution_context().frozen_branches == nullptr ? relu(x) : square(x);
  };
  CHECK_THROWS_AS(gradient_error(two_faced, {x}), ValueError);
}

TEST_CASE("gradcheck accepts a zero gradient where differences have rounding errors only") {
  const Tensor x = random_leaf({6}, 1);
  const Tensor shift = Tensor::scalar(0.3, DType::float64).require_gradient();
  const NamedTensor named[] = {{"x", x}, {"shift", shift}};
  const GradcheckReport report = gradcheck([&] { return softmax(x + shift); }, named);
  CHECK(report.rows[0].verdict == GradcheckVerdict::agrees);
  CHECK(report.rows[1].verdict != GradcheckVerdict::wrong);
}

TEST_CASE("gradcheck catches NaN in the output") {
  Tensor x = Tensor::from({2}, {1.0, std::numeric_limits<double>::quiet_NaN()}, DType::float64);
  x.require_gradient();
  CHECK(gradient_error([&] { return square(x); }, {x}) > 1e-4);
}

TEST_CASE("gradcheck reports each tensor with its name, shape, norm and worst coordinate") {
  const Tensor x = Tensor::scalar(3.0, DType::float64).require_gradient();
  const Tensor other = Tensor::full({2}, 1.0, DType::float64).require_gradient();
  const NamedTensor named[] = {{"x", x}, {"other", other}};
  const GradcheckReport report = gradcheck([&] { return square(x); }, named);
  REQUIRE(report.rows.size() == 2);
  const GradcheckRow& row = report.rows[0];
  CHECK(row.name == "x");
  CHECK(row.shape == Shape{});
  CHECK(row.has_gradient);
  CHECK(row.coordinates.checked == 1);
  CHECK(row.gradient_norm == doctest::Approx(6.0));
  CHECK(row.analytic == doctest::Approx(6.0));
  CHECK(row.numeric == doctest::Approx(row.analytic).epsilon(1e-9));
  CHECK(report.rows[1].name == "other");
  CHECK_FALSE(report.rows[1].has_gradient);
  CHECK(report.rows[1].gradient_norm == 0.0);
  CHECK(report.rows[1].worst_relative_error == 0.0);
}

TEST_CASE("the norm of a gradient is positive, whatever the sign of the output's weight") {
  const Tensor x = Tensor::scalar(3.0, DType::float64).require_gradient();
  const NamedTensor named[] = {{"x", x}};
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    const auto report = gradcheck([&] { return square(x); }, named, {.seed = seed});
    CHECK(report.rows.at(0).gradient_norm == doctest::Approx(6.0));
    // Nor does it change the signs of the two figures.
    const auto at_coordinates =
        gradcheck([&] { return square(x); }, named, {.directions = 0, .seed = seed});
    CHECK(at_coordinates.rows.at(0).analytic == doctest::Approx(6.0));
    CHECK(at_coordinates.rows.at(0).numeric == doctest::Approx(6.0));
  }
}

TEST_CASE("the worst error of a report is the largest of all rows, whichever row has it") {
  GradcheckReport report;
  CHECK(report.worst_relative_error() == 0.0);
  for (const double error : {0.25, 0.5, 0.125}) {
    report.rows.push_back({.worst_relative_error = error});
  }
  CHECK(report.worst_relative_error() == 0.5);
}

TEST_CASE("gradcheck points to the coordinate that is wrong") {
  const Tensor x = random_leaf({7}, 1);
  const NamedTensor named[] = {{"x", x}};
  const GradcheckReport report = gradcheck([&] { return apply(OneWrong{}, x); }, named);
  CHECK(report.rows[0].worst_coordinate == 4);
  CHECK(report.rows[0].worst_relative_error > 0.1);
}

TEST_CASE("gradcheck samples large tensors and checks all of small ones") {
  const Tensor small = random_leaf({64}, 1);
  const Tensor large = random_leaf({65}, 2);
  const NamedTensor named[] = {{"small", small}, {"large", large}};
  CHECK(gradcheck([&] { return square(small); }, named).rows[0].coordinates.checked == 64);
  CHECK(gradcheck([&] { return square(large); }, named).rows[1].coordinates.checked == 64);
  const GradcheckOptions all = {.max_coordinates = 1000};
  CHECK(gradcheck([&] { return square(large); }, named, all).rows[1].coordinates.checked == 65);
}

TEST_CASE("gradcheck restores values to the bit and clears gradients") {
  const Tensor x = random_leaf({5}, 1);
  const std::vector<double> before = values_of(x);
  gradient_error([&] { return exp(x); }, {x});
  CHECK(values_of(x) == before);
  CHECK_FALSE(x.gradient().defined());
}

TEST_CASE("gradcheck ignores gradients that were there before") {
  const Tensor x = random_leaf({5}, 1);
  {
    Tape tape;
    tape.backward(square(x), Tensor::full({5}, 7.0, DType::float64));
  }
  CHECK(gradient_error([&] { return square(x); }, {x}) < 1e-9);
}

TEST_CASE("gradcheck records nothing on a tape that is active around it") {
  const Tensor x = random_leaf({5}, 1);
  const Tape tape;
  CHECK(gradient_error([&] { return square(x); }, {x}) < 1e-9);
  CHECK(tape.size() == 0);
}

TEST_CASE("gradcheck accepts a function that returns its input, or an empty tensor") {
  const Tensor x = random_leaf({5}, 1);
  CHECK(gradient_error([&] { return x; }, {x}) < 1e-9);
  const Tensor none = Tensor::zeros({0}, DType::float64).require_gradient();
  CHECK(gradient_error([&] { return square(none); }, {none}) == 0.0);
}

TEST_CASE("gradcheck refuses float32 and tensors that require no gradient, by name") {
  const auto check = [](const Tensor& x) {
    const NamedTensor named[] = {{"encoder.weight", x}};
    gradcheck([&] { return square(x); }, named);
  };
  CHECK_THROWS_WITH_AS(check(Tensor::zeros({2}, DType::float32).require_gradient()),
                       "gradcheck: `encoder.weight` is float32, expected float64: differences of "
                       "float32 values are too coarse",
                       DTypeError);
  CHECK_THROWS_WITH_AS(check(Tensor::zeros({2}, DType::float64)),
                       "gradcheck: `encoder.weight` requires no gradient", ValueError);
}
