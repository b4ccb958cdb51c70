#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <stdexcept>

#include "autograd/error.h"
#include "autograd/gradcheck/gradcheck.h"
#include "autograd/ops/activations.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/reductions.h"
#include "tests/autograd/gradcheck/faulty_operation.h"
#include "tests/support/gradients.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

GradcheckRow row_of(const std::function<Tensor()>& function, const Tensor& x,
                    const GradcheckOptions& options = {}) {
  const NamedTensor named[] = {{"x", x}};
  return gradcheck(function, named, options).rows.at(0);
}

}  // namespace

TEST_CASE("one wrong value among thousands is found, though no coordinate of it is sampled") {
  const Tensor x = random_leaf({60, 70}, 1);
  const auto one_wrong = [](std::size_t i, double g) { return i == 3456 ? 1.01 * g : g; };
  const GradcheckRow row =
      row_of([&] { return faulty(square(x), one_wrong); }, x, {.max_coordinates = 0});
  CHECK(row.verdict == GradcheckVerdict::wrong);
  CHECK(row.worst_coordinate == 3456);
  CHECK(row.analytic == doctest::Approx(1.01 * row.numeric).epsilon(1e-6));
  CHECK(row.coordinates.checked == 1);
}

TEST_CASE("one wrong value is found at every place of a tensor of odd size") {
  for (const std::size_t size : {std::size_t{2}, std::size_t{7}, std::size_t{101}}) {
    const Tensor x = random_leaf({size}, 1);
    for (std::size_t place = 0; place < size; place += size == 101 ? 25 : 1) {
      CAPTURE(size);
      CAPTURE(place);
      const auto one_wrong = [&](std::size_t i, double g) { return i == place ? 1.01 * g : g; };
      const GradcheckRow row =
          row_of([&] { return faulty(square(x), one_wrong); }, x, {.max_coordinates = 0});
      CHECK(row.verdict == GradcheckVerdict::wrong);
      CHECK(row.worst_coordinate == place);
    }
  }
}

TEST_CASE("the wrong coordinate that was found is reported, although later directions are worse") {
  const Tensor x = random_leaf({2}, 1);
  const auto both_wrong = [](std::size_t i, double g) { return i == 0 ? 1.001 * g : 3.0 * g; };
  const GradcheckRow row =
      row_of([&] { return faulty(square(x), both_wrong); }, x, {.max_coordinates = 0});
  CHECK(row.directions.checked > 1);
  CHECK(row.coordinates.checked == 1);
  CHECK(row.worst_coordinate == 0);
  CHECK(row.analytic == doctest::Approx(1.001 * row.numeric).epsilon(1e-6));
}

TEST_CASE("one wrong value among thousands is not found without directions") {
  const Tensor x = random_leaf({60, 70}, 1);
  const auto one_wrong = [](std::size_t i, double g) { return i == 3456 ? 1.01 * g : g; };
  CHECK(row_of([&] { return faulty(square(x), one_wrong); }, x,
               {.directions = 0, .max_coordinates = 8})
            .verdict == GradcheckVerdict::agrees);
}

TEST_CASE("every direction and coordinate is counted") {
  const Tensor x = random_leaf({10}, 1);
  const GradcheckRow row = row_of([&] { return square(x); }, x, {.directions = 5});
  CHECK(row.directions.checked == 5);
  CHECK(row.directions.inconclusive == 0);
  CHECK(row.coordinates.checked == 10);
  CHECK(row.verdict == GradcheckVerdict::agrees);
}

TEST_CASE("a coordinate at a kink is inconclusive, and so is its tensor") {
  const Tensor x = Tensor::from({3}, {1.0, 0.0, -1.0}, DType::float64).require_gradient();
  const GradcheckRow row = row_of([&] { return relu(x); }, x, {.directions = 0});
  CHECK(row.verdict == GradcheckVerdict::inconclusive);
  CHECK(row.coordinates.inconclusive == 1);
  CHECK(row.inconclusive_coordinate == 1);
  CHECK(row.worst_relative_error < 1e-9);
}

TEST_CASE("at a kink neither the mean of both slopes nor 0 agrees with the differences") {
  const Tensor x = Tensor::zeros({3}, DType::float64).require_gradient();
  const auto half = [](std::size_t, double) { return 0.5; };
  const auto none = [](std::size_t, double) { return 0.0; };
  for (const auto& spoil : {std::function<double(std::size_t, double)>(half), {none}}) {
    const GradcheckRow row = row_of([&] { return relu(faulty(x, spoil)); }, x);
    CHECK(row.verdict == GradcheckVerdict::inconclusive);
    CHECK(row.coordinates.inconclusive == 3);
  }
}

TEST_CASE("differences across the end of the domain are inconclusive, shorter ones may agree") {
  const Tensor at_the_end = Tensor::full({1}, 1e-9, DType::float64).require_gradient();
  CHECK(row_of([&] { return sqrt(at_the_end); }, at_the_end).verdict ==
        GradcheckVerdict::inconclusive);
  const Tensor near = Tensor::full({1}, 5e-4, DType::float64).require_gradient();
  CHECK(row_of([&] { return sqrt(near); }, near).verdict == GradcheckVerdict::agrees);
}

TEST_CASE("rounding inside of the function is not taken for a wrong gradient") {
  const Tensor x = random_leaf({6}, 1);
  for (const double large : {1e6, 1e7, 1e8}) {
    const Tensor far = Tensor::full({6}, large, DType::float64);
    CHECK(row_of([&] { return (x + far) - far; }, x).verdict != GradcheckVerdict::wrong);
  }
}

TEST_CASE("directions that all cross a kink are inconclusive too") {
  const Tensor x = Tensor::from({3}, {1.0, 0.0, -1.0}, DType::float64).require_gradient();
  const GradcheckRow row =
      row_of([&] { return relu(x); }, x, {.directions = 2, .max_coordinates = 0});
  CHECK(row.verdict == GradcheckVerdict::inconclusive);
  CHECK(row.directions.checked == 4);  // each was tried again, and in vain
  CHECK(row.directions.inconclusive == 4);
}

TEST_CASE("an error a hundred times that of the differences is wrong, not inconclusive") {
  // At the shortest steps exp(40 x) grows e-fold: differences are good to 3e-6 or so.
  const Tensor x = Tensor::full({4}, 0.1, DType::float64).require_gradient();
  for (const double error : {1e-3, 3e-4}) {
    const auto steep = [&] { return times(exp(scale(x, 40.0)), 1.0 + error); };
    const GradcheckRow row = row_of(steep, x, {.step = 6.4});
    CHECK(row.verdict == GradcheckVerdict::wrong);
    CHECK(row.factor == doctest::Approx(1.0 + error).epsilon(0.1 * error));
  }
}

TEST_CASE("cosine and factor compare the two gradients") {
  const Tensor x = random_leaf({8}, 1);
  const GradcheckRow half = row_of([&] { return times(square(x), 0.5); }, x);
  CHECK(half.cosine == doctest::Approx(1.0));
  CHECK(half.factor == doctest::Approx(0.5));
  const GradcheckRow opposite = row_of([&] { return times(square(x), -1.0); }, x);
  CHECK(opposite.cosine == doctest::Approx(-1.0));
  CHECK(opposite.factor == doctest::Approx(-1.0));
}

TEST_CASE("several outputs are differentiated one by one") {
  const Tensor x = random_leaf({4}, 1);
  const NamedTensor named[] = {{"x", x}};
  const auto report = gradcheck_outputs(
      [&] {
        return std::vector<NamedTensor>{{"good", square(x)}, {"bad", times(exp(x), 2.0)}};
      },
      named);
  REQUIRE(report.rows.size() == 2);
  CHECK(report.rows[0].output == "good");
  CHECK(report.rows[0].verdict == GradcheckVerdict::agrees);
  CHECK(report.rows[1].output == "bad");
  CHECK(report.rows[1].verdict == GradcheckVerdict::wrong);
  REQUIRE(report.first_wrong);
  CHECK(report.first_wrong->operation == "faulty");
}

TEST_CASE("the rows of several outputs are those of each tensor, output by output") {
  const Tensor x = random_leaf({4}, 1), y = random_leaf({2, 3}, 2), z = random_leaf({3}, 3);
  const NamedTensor named[] = {{"x", x}, {"y", y}, {"z", z}};
  const auto report = gradcheck_outputs(
      [&] {
        return std::vector<NamedTensor>{{"first", sum(square(x)) + sum(z)},
                                        {"second", sum(exp(y)) + sum(times(exp(z), 2.0))}};
      },
      named);
  REQUIRE(report.rows.size() == 6);
  const Shape shapes[] = {{4}, {2, 3}, {3}};
  for (std::size_t i = 0; i < 6; ++i) {
    const GradcheckRow& row = report.rows[i];
    CHECK(row.output == (i < 3 ? "first" : "second"));
    CHECK(row.name == named[i % 3].name);
    CHECK(row.shape == shapes[i % 3]);
    CHECK(row.has_gradient == (i == 0 || i == 2 || i == 4 || i == 5));
    CHECK((row.verdict == GradcheckVerdict::wrong) == (i == 5));
  }
  REQUIRE(report.first_wrong);
  CHECK(report.first_wrong->operation == "faulty");
}

TEST_CASE("a missing gradient of a tensor that the output depends on is wrong") {
  const Tensor x = random_leaf({4}, 1);
  const auto cut_off = [&] { return square(x.copied(DType::float64).require_gradient()); };
  const GradcheckRow row = row_of(cut_off, x);
  CHECK_FALSE(row.has_gradient);
  CHECK(row.verdict == GradcheckVerdict::wrong);
}

TEST_CASE("a gradient below the rounding error is reported as zero") {
  const Tensor x = random_leaf({4}, 1);
  const auto nothing = [&] { return sum(x) - sum(x); };
  const GradcheckRow row = row_of(nothing, x);
  CHECK(row.zero);
  CHECK(row.verdict == GradcheckVerdict::agrees);  // exactly, by the tape and by differences
  CHECK_FALSE(row_of([&] { return square(x); }, x).zero);
}

TEST_CASE("values are restored when the function throws") {
  const Tensor x = random_leaf({4}, 1);
  const std::vector<double> before = values_of(x);
  int calls = 0;
  const auto breaks_off = [&]() -> Tensor {
    if (++calls > 6) throw std::runtime_error("enough");
    return square(x);
  };
  CHECK_THROWS_AS(row_of(breaks_off, x), std::runtime_error);
  CHECK(values_of(x) == before);
}

TEST_CASE("a tensor without any comparison does not agree") {
  const Tensor x = random_leaf({4}, 1);
  const GradcheckRow row =
      row_of([&] { return square(x); }, x, {.directions = 0, .max_coordinates = 0});
  CHECK(row.verdict == GradcheckVerdict::inconclusive);
  CHECK_FALSE(row.worst_coordinate);
}

TEST_CASE("gradcheck refuses invalid options, no outputs and outputs that change shape") {
  const Tensor x = random_leaf({4}, 1);
  CHECK_THROWS_WITH_AS(row_of([&] { return square(x); }, x, {.step = 0.0}),
                       "gradcheck: step is 0, expected a finite number > 0", ValueError);
  CHECK_THROWS_WITH_AS(row_of([&] { return square(x); }, x, {.tolerance = -1.0}),
                       "gradcheck: tolerance is -1, expected a finite number > 0", ValueError);
  for (const double bad : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    CHECK_THROWS_AS(row_of([&] { return square(x); }, x, {.step = bad}), ValueError);
    CHECK_THROWS_AS(row_of([&] { return square(x); }, x, {.tolerance = bad}), ValueError);
  }
  CHECK_THROWS_AS(row_of([&] { return square(x); }, x, {.tolerance = 0.0}), ValueError);
  const NamedTensor named[] = {{"x", x}};
  CHECK_THROWS_WITH_AS(gradcheck_outputs([] { return std::vector<NamedTensor>{}; }, named),
                       "gradcheck: the function returned no outputs, expected one", ValueError);
  int calls = 0;
  const auto grows = [&] { return ++calls > 4 ? sum(square(x)) : square(x); };
  CHECK_THROWS_WITH_AS(row_of(grows, x),
                       "gradcheck: the output has shape () where a value has moved a little, "
                       "expected (4) as at the start",
                       ShapeError);
}

TEST_CASE("gradcheck refuses a function that gives different values for the same input") {
  const Tensor x = random_leaf({4}, 1);
  double drift = 0.0;
  const auto restless = [&] {
    return square(x) + Tensor::full({4}, drift += 1e-12, DType::float64);
  };
  CHECK_THROWS_WITH_AS(row_of(restless, x),
                       "gradcheck: the function returned different values when it was called "
                       "again, expected the same: random numbers must come from the same stream "
                       "each time",
                       ValueError);
}
