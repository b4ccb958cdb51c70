#include "autograd/ops/losses.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/error.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/linear.h"
#include "autograd/ops/reductions.h"
#include "autograd/tape.h"
#include "tests/support/gradients.h"
#include "tests/support/threads.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

constexpr std::int32_t ignored = -7;

struct Case {
  std::size_t rows, length, d, vocabulary;
  double label_smoothing = 0.0;
  bool bias = true;
  /// Each target whose place is a multiple of this is ignored; 0: none.
  std::size_t ignore_every = 0;
};

Ids targets_of(const Case& c) {
  Ids ids(Shape{c.rows, c.length});
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const bool left_out = c.ignore_every != 0 && i % c.ignore_every == 0;
    ids.data()[i] = left_out ? ignored : static_cast<std::int32_t>(i * i % c.vocabulary);
  }
  return ids;
}

/// The loss, the sum of negative log-likelihoods and the gradients of x, weight and bias.
struct Results {
  std::vector<double> numbers;
  std::vector<std::vector<double>> gradients;
  bool operator==(const Results&) const = default;
};

Results results_of(const Case& c, DType dtype, bool fused) {
  const Tensor x = random_leaf({c.rows, c.length, c.d}, 1).copied(dtype).require_gradient();
  const Tensor weight = random_leaf({c.vocabulary, c.d}, 2).copied(dtype).require_gradient();
  const Tensor bias =
      c.bias ? random_leaf({c.vocabulary}, 3).copied(dtype).require_gradient() : Tensor();
  const CrossEntropyOptions options{.ignored_id = ignored, .label_smoothing = c.label_smoothing};
  Tape tape;
  const Loss loss = fused ? linear_cross_entropy(x, weight, bias, targets_of(c), options)
                          : cross_entropy(linear(x, weight, bias), targets_of(c), options);
  tape.backward(loss.mean);
  Results results{
      .numbers = {loss.mean.item(), loss.nll_sum, static_cast<double>(loss.num_targets)},
      .gradients = {}};
  for (const Tensor& leaf : {x, weight, bias}) {
    if (leaf.defined()) results.gradients.push_back(values_of(leaf.gradient()));
  }
  return results;
}

double largest(const std::vector<double>& values) {
  double most = 0.0;
  for (const double value : values) most = std::max(most, std::abs(value));
  return most;
}

void check_close(const std::vector<double>& found, const std::vector<double>& expected,
                 double tolerance) {
  REQUIRE(found.size() == expected.size());
  double worst = 0.0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double error = std::abs(found[i] - expected[i]);
    worst = std::isnan(error) ? std::numeric_limits<double>::infinity() : std::max(worst, error);
  }
  CHECK(worst <= tolerance * std::max(largest(expected), 1e-3));
}

void check_against_twin(const Case& c) {
  CAPTURE(c.rows * c.length);
  CAPTURE(c.vocabulary);
  CAPTURE(c.ignore_every);
  for (const DType dtype : dtypes) {
    const double limit = dtype == DType::float32 ? 2e-5 : 1e-12;
    const Results fused = results_of(c, dtype, true);
    const Results twin = results_of(c, dtype, false);
    check_close(fused.numbers, twin.numbers, limit);
    REQUIRE(fused.gradients.size() == twin.gradients.size());
    for (std::size_t i = 0; i < fused.gradients.size(); ++i) {
      check_close(fused.gradients[i], twin.gradients[i], limit);
    }
  }
}

Tensor leaf(const Shape& shape, std::uint64_t seed) { return random_leaf(shape, seed); }

}  // namespace

TEST_CASE("linear_cross_entropy equals a hand-worked loss") {
  // Logits (ln 1, ln 3) and (0, 0): the first from the bias, the second cancels it.
  const Tensor x = Tensor::from({1, 2, 1}, {0.0, -std::log(3.0)}, DType::float64);
  const Tensor weight = Tensor::from({2, 1}, {0.0, 1.0}, DType::float64);
  const Tensor bias = Tensor::from({2}, {0.0, std::log(3.0)}, DType::float64);
  const Loss loss = linear_cross_entropy(x, weight, bias, Ids{{1, 0}});
  check_values(loss.mean, {(-std::log(0.75) - std::log(0.5)) / 2});
  CHECK(loss.nll_sum == doctest::Approx(-std::log(0.75) - std::log(0.5)));
  CHECK(loss.num_targets == 2);
}

TEST_CASE("linear_cross_entropy equals cross_entropy of linear around the width of vectors") {
  for (const std::size_t vocabulary : {1, 2, 7, 8, 15, 16, 17, 31, 33}) {
    for (const double alpha : {0.0, 0.1}) {
      check_against_twin({2, 3, 5, vocabulary, alpha});
      check_against_twin({3, 1, 1, vocabulary, alpha, false});
      check_against_twin({2, 5, 17, vocabulary, alpha, true, 3});
    }
  }
}

TEST_CASE("linear_cross_entropy equals cross_entropy of linear around the length of a chunk") {
  for (const std::size_t rows : {95, 96, 97, 192, 193, 200}) {
    check_against_twin({rows, 1, 3, 11000, 0.1});
  }
  check_against_twin({25, 9, 3, 11000, 0.1, true, 2});  // fewer than a chunk more than one count
  check_against_twin({130, 2, 2, 8000, 0.0, false, 7});
}

TEST_CASE("linear_cross_entropy: an ignored target has no loss and no gradient, whatever its x") {
  const Case c{.rows = 3, .length = 4, .d = 6, .vocabulary = 9, .ignore_every = 2};
  const Tensor weight = leaf({9, 6}, 2), bias = leaf({9}, 3);
  const auto run = [&](double behind) {
    Tensor x = leaf({3, 4, 6}, 1);
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (i / 6 % 2 == 0) x.mutable_values<double>()[i] = behind;
    }
    weight.slot()->clear(), bias.slot()->clear();
    Tape tape;
    const Tensor loss =
        linear_cross_entropy(x, weight, bias, targets_of(c), {.ignored_id = ignored}).mean;
    tape.backward(loss);
    return std::vector{values_of(loss), values_of(x.gradient()), values_of(weight.gradient()),
                       values_of(bias.gradient())};
  };
  const auto clean = run(0.5);
  CHECK(run(std::numeric_limits<double>::quiet_NaN()) == clean);
  for (std::size_t i = 0; i < 72; ++i) CHECK((clean[1][i] == 0.0) == (i / 6 % 2 == 0));
}

TEST_CASE("linear_cross_entropy is 0 with zero gradients if all targets are ignored") {
  const Tensor x = leaf({1, 2, 3}, 1), weight = leaf({4, 3}, 2), bias = leaf({4}, 3);
  Tape tape;
  const Tensor loss = linear_cross_entropy(x, weight, bias, Ids{{ignored, ignored}},
                                           {.ignored_id = ignored, .normalizer = 5})
                          .mean;
  tape.backward(loss);
  CHECK(loss.item() == 0.0);
  for (const Tensor& t : {x, weight, bias}) CHECK(largest(values_of(t.gradient())) == 0.0);
}

TEST_CASE("gradients of linear_cross_entropy scale with dL/dloss and add to existing ones") {
  const Tensor x = leaf({1, 2, 3}, 1), weight = leaf({4, 3}, 2), bias = leaf({4}, 3);
  const Ids ids{{3, 1}};
  const auto gradients = [&](double factor) {
    for (const Tensor& t : {x, weight, bias}) t.slot()->clear();
    Tape tape;
    tape.backward(scale(linear_cross_entropy(x, weight, bias, ids).mean, factor));
    std::vector<double> all;
    for (const Tensor& t : {x, weight, bias}) {
      for (const double g : values_of(t.gradient())) all.push_back(g);
    }
    return all;
  };
  const std::vector<double> once = gradients(1.0), thrice = gradients(-3.0);
  for (std::size_t i = 0; i < once.size(); ++i) {
    CHECK(thrice[i] == doctest::Approx(-3.0 * once[i]).epsilon(1e-14));
  }
  gradients(1.0);
  Tape tape;
  tape.backward(linear_cross_entropy(x, weight, bias, ids).mean);
  CHECK(values_of(bias.gradient())[0] == doctest::Approx(2.0 * once[18]).epsilon(1e-14));
}

TEST_CASE("linear_cross_entropy computes only the gradients that are required") {
  const Tensor x = leaf({1, 2, 3}, 1), weight = leaf({4, 3}, 2);
  const Tensor fixed = weight.copied(DType::float64);
  Tape tape;
  tape.backward(linear_cross_entropy(x, fixed, Tensor(), Ids{{3, 1}}).mean);
  CHECK(x.gradient().defined());
  CHECK_FALSE(fixed.gradient().defined());
  CHECK_FALSE(linear_cross_entropy(fixed.viewed_as({2, 2, 3}), fixed, Tensor(), Ids{{3, 1}, {0, 0}})
                  .mean.requires_gradient());
}

TEST_CASE("the gradients of linear_cross_entropy agree with differences") {
  const Tensor x = leaf({2, 3, 4}, 1), weight = leaf({5, 4}, 2), bias = leaf({5}, 3);
  const Ids ids{{0, 4, ignored}, {2, 2, 1}};
  const CrossEntropyOptions options{.ignored_id = ignored, .label_smoothing = 0.2};
  CHECK(gradient_error([&] { return linear_cross_entropy(x, weight, bias, ids, options).mean; },
                       {x, weight, bias}) < 1e-6);
}

TEST_CASE("linear_cross_entropy has the same bits on any number of threads") {
  const Case c{.rows = 40, .length = 7, .d = 24, .vocabulary = 4100, .label_smoothing = 0.1};
  CHECK(same_on_any_number_of_threads([&] { return results_of(c, DType::float32, true); }));
}

TEST_CASE("linear_cross_entropy refuses shapes that do not fit") {
  const auto zeros = [](const Shape& shape) { return Tensor::zeros(shape, DType::float64); };
  const Tensor x = zeros({1, 2, 3}), weight = zeros({4, 3}), bias = zeros({4});
  const Ids ids{{3, 1}};
  CHECK_THROWS_WITH_AS(linear_cross_entropy(x, zeros({4}), bias, ids),
                       "linear_cross_entropy: weight has shape (4), expected (vocabulary, d)",
                       ShapeError);
  CHECK_THROWS_WITH_AS(linear_cross_entropy(x, zeros({0, 3}), bias, ids),
                       "linear_cross_entropy: weight has shape (0, 3), expected (vocabulary, d)",
                       ShapeError);
  CHECK_THROWS_WITH_AS(
      linear_cross_entropy(zeros({1, 3, 3}), weight, bias, ids),
      "linear_cross_entropy: x has shape (1, 3, 3), expected (1, 2, 3) (weight is (4, 3))",
      ShapeError);
  CHECK_THROWS_WITH_AS(linear_cross_entropy(x, weight, zeros({3}), ids),
                       "linear_cross_entropy: bias has shape (3), expected (4) (weight is (4, 3))",
                       ShapeError);
  CHECK_THROWS_AS(linear_cross_entropy(x, Tensor::zeros({4, 3}, DType::float32), bias, ids),
                  DTypeError);
  CHECK_THROWS_WITH_AS(linear_cross_entropy(x, weight, bias, Ids{{3, 4}}),
                       "linear_cross_entropy: target (0, 1) is 4, expected 0 <= id < 4",
                       ValueError);
  CHECK_THROWS_AS(linear_cross_entropy(x, weight, bias, ids, {.label_smoothing = 1.0}), ValueError);
  CHECK_THROWS_AS(linear_cross_entropy(x, weight, bias, Ids{{7, 7}}, {.ignored_id = 7}),
                  ValueError);
}
