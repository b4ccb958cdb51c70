// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/ops/losses.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "autograd/error.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/linear.h"
#include "autograd/ops/reductions.h"
#include "autograd/ops/shape_ops.h"
#include "tests/support/cases.h"
#include "tests/support/gradients.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

/// Logits (1, targets, classes) and a number, the loss.
WorkedCase loss_case(const char* name, const std::vector<double>& logits,
                     const std::vector<std::int32_t>& targets, const CrossEntropyOptions& options,
                     double loss, const std::vector<double>& gradient = {}) {
  const Shape shape{1, targets.size(), logits.size() / targets.size()};
  const Ids ids(Shape{1, targets.size()}, targets);
  return {name,
          {exact(shape, logits)},
          [=](const Operands& o) { return cross_entropy(o[0], ids, options).mean; },
          exact({}, {loss}),
          gradient.empty() ? std::vector<double>() : std::vector<double>{1.0},
          {gradient}};
}

Tensor binary_loss(const Operands& o) { return binary_cross_entropy_with_logits(o[0], o[1]); }

WorkedCase binary_case(const char* name, const std::vector<double>& logits,
                       const std::vector<double>& targets, double loss,
                       const std::vector<double>& gradient = {}) {
  return {name,
          {exact(logits), exact(targets)},
          binary_loss,
          exact({}, {loss}),
          gradient.empty() ? std::vector<double>() : std::vector<double>{1.0},
          {gradient}};
}

constexpr std::int32_t ignored = -7;

/// Sizes and options of a call of linear_cross_entropy.
struct Problem {
  std::size_t rows, length, d, vocabulary;
  double label_smoothing = 0.0;
  bool bias = true;
  /// Ignores the targets at multiples of this position; 0 ignores no target.
  std::size_t ignore_every = 0;

  Ids targets() const {
    Ids ids = Ids::zeros({rows, length});
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const bool left_out = ignore_every != 0 && i % ignore_every == 0;
      ids[i] = left_out ? ignored : static_cast<std::int32_t>(i * i % vocabulary);
    }
    return ids;
  }
  CrossEntropyOptions options() const {
    return {.ignored_id = ignored, .label_smoothing = label_smoothing};
  }
  /// x, weight and bias.
  Operands operands(DType dtype) const {
    Operands o{random_leaf({rows, length, d}, 1).detach().to(dtype),
               random_leaf({vocabulary, d}, 2).detach().to(dtype)};
    if (bias) o.push_back(random_leaf({vocabulary}, 3).detach().to(dtype));
    return o;
  }
};

/// Checks linear_cross_entropy against cross_entropy of linear: loss, sums and gradients.
void check_against_parts(const Problem& p) {
  CAPTURE(p.rows * p.length);
  CAPTURE(p.vocabulary);
  CAPTURE(p.ignore_every);
  for (const DType dtype : dtypes) {
    Loss fused, parts;
    const auto bias = [](const Operands& o) { return o.size() == 3 ? o[2] : Tensor(); };
    const Results found = results_of(
        [&](const Operands& o) {
          fused = linear_cross_entropy(o[0], o[1], bias(o), p.targets(), p.options());
          return fused.mean;
        },
        p.operands(dtype));
    const Results expected = results_of(
        [&](const Operands& o) {
          parts = cross_entropy(linear(o[0], o[1], bias(o)), p.targets(), p.options());
          return parts.mean;
        },
        p.operands(dtype));
    const double limit = dtype == DType::float32 ? 1e-5 : 1e-12;
    CHECK(difference(found, expected) < limit);
    CHECK(fused.nll_sum == doctest::Approx(parts.nll_sum).epsilon(2 * limit));
    CHECK(fused.num_targets == parts.num_targets);
  }
}

}  // namespace

// p = (1/4, 3/4) of logits (0, ln 3), and (1/5, 4/5) of (0, ln 4).
TEST_CASE("cross entropy gives hand-worked losses and gradients") {
  const double e = 1e4;
  check_worked({
      loss_case("minus the mean log-probability", {0, ln3, ln2, ln2}, {1, 0}, {},
                (-std::log(0.75) + ln2) / 2, {0.125, -0.125, -0.25, 0.25}),
      loss_case("smoothing spreads alpha over the whole vocabulary", {0, ln4}, {1},
                {.label_smoothing = 0.5}, -0.25 * std::log(0.2) - 0.75 * std::log(0.8),
                {0.2 - 0.25, 0.8 - 0.75}),
      loss_case("equal logits", {2, 2, 2, 2}, {3}, {.label_smoothing = 0.9}, ln4),
      loss_case("a vocabulary of one word", {3, -e}, {0, 0}, {.label_smoothing = 0.3}, 0, {0, 0}),
      loss_case("an ignored target", {0, 0, 5, -5}, {1, 9}, {.ignored_id = 9}, ln2,
                {0.5, -0.5, 0, 0}),
      loss_case("a normalizer", {0, 0, 5, -5}, {1, 9}, {.ignored_id = 9, .normalizer = 4}, ln2 / 4,
                {0.125, -0.125, 0, 0}),
      loss_case("all ignored, with a normalizer", {1, 2, 5, -5}, {9, 9},
                {.ignored_id = 9, .normalizer = 5}, 0, {0, 0, 0, 0}),
      loss_case("not finite at an ignored target", {0, 0, not_a_number, inf}, {1, 9},
                {.ignored_id = 9, .label_smoothing = 0.2}, ln2, {0.4, -0.4, 0, 0}),
      loss_case("logits of 1e4", {e, -e, e, -e}, {0, 1}, {}, e, {0, 0, 0.5, -0.5}),
      loss_case("a class excluded by -inf", {0, 0, -inf}, {0}, {}, ln2, {-0.5, 0.5, 0}),
      loss_case("an excluded target", {0, 0, -inf}, {2}, {}, inf),
      loss_case("an excluded class with smoothing", {0, 0, -inf}, {0}, {.label_smoothing = 0.1},
                inf),
      loss_case("NaN", {0, not_a_number}, {1}, {}, not_a_number),
      loss_case("infinity", {0, inf}, {1}, {}, not_a_number),
  });
}

TEST_CASE("cross_entropy returns the sum of -log p(target), unsmoothed, and the target count") {
  const Tensor logits = exact({1, 2, 2}, {0, ln4, 0, 0});
  const Loss loss = cross_entropy(logits, Ids{{1, 0}}, {.label_smoothing = 0.5});
  CHECK(loss.nll_sum == doctest::Approx(-std::log(0.8) - std::log(0.5)));
  CHECK(loss.num_targets == 2);
  const Loss half = cross_entropy(logits, Ids{{1, 9}}, {.ignored_id = 9, .normalizer = 7});
  CHECK(half.nll_sum == doctest::Approx(-std::log(0.8)));
  CHECK(half.num_targets == 1);
}

TEST_CASE("an ignored target does not change gradients that other uses of the logits contribute") {
  const Tensor logits = Tensor::zeros({1, 2, 2}, DType::float64).set_requires_grad(true);
  Tape tape;
  const Tensor loss = cross_entropy(logits, Ids{{1, 9}}, {.ignored_id = 9}).mean;
  tape.backward(loss + sum(logits));  // the sum comes last, so backward computes its gradient first
  check_values(logits.grad(), {1.5, 0.5, 1.0, 1.0});
}

TEST_CASE("cross_entropy of targets of any shape is bit-identical to a batch of single rows") {
  const Tensor flat = random_leaf({6, 5}, 1);
  const std::vector<std::int32_t> ids{0, 4, 2, 3, 1, 1};
  const double expected = cross_entropy(flat, Ids(Shape{6}, ids)).mean.item();
  for (const Shape& shape : {Shape{2, 3}, Shape{1, 3, 2}}) {
    const Tensor logits = flat.viewed_as(shape.inserted(shape.rank(), 5));
    CHECK(cross_entropy(logits, Ids(shape, ids)).mean.item() == expected);
  }
  CHECK(cross_entropy(zeros({4}), Ids(Shape{}, 2)).mean.item() == doctest::Approx(ln4));
}

TEST_CASE("cross_entropy and accuracy reject targets and shapes that do not fit") {
  const Tensor logits = zeros({1, 2, 3});
  const auto loss = [](const Tensor& x, const Ids& ids, const CrossEntropyOptions& options = {}) {
    return [=] { cross_entropy(x, ids, options); };
  };
  check_error<ShapeError>("cross_entropy: logits|(1, 2, 3)|(1, 3, vocabulary)|(1, 3)",
                          loss(logits, Ids{{1, 2, 0}}));
  check_error<ShapeError>("cross_entropy: |(6, 5)|(5, vocabulary)",
                          loss(zeros({6, 5}), Ids::zeros({5})));
  for (const Shape& shape : {Shape{2, 2, 3}, Shape{1, 3, 3}, Shape{1, 2, 0}, Shape{2, 3}}) {
    check_error<ShapeError>("cross_entropy", loss(zeros(shape), Ids{{1, 2}}));
  }
  check_error<ValueError>("cross_entropy: target (1, 2) is -3|< 3",
                          loss(zeros({2, 3, 3}), Ids{{0, 1, 2}, {2, 1, -3}}));
  check_error<ValueError>("target (0, 1) is 3|< 3", loss(logits, Ids{{1, 3}}));
  check_error<ValueError>("all 2 targets|(id 1)", loss(logits, Ids{{1, 1}}, {.ignored_id = 1}));
  check_error<ValueError>("all 0 targets",
                          loss(zeros({2, 0, 3}), Ids::zeros({2, 0}), {.ignored_id = 1}));
  for (const double alpha : {-0.1, 1.0, not_a_number, inf}) {
    check_error<ValueError>("label_smoothing",
                            loss(logits, Ids{{1, 1}}, {.label_smoothing = alpha}));
  }
  const auto share = [](const Ids& ids, std::int32_t ignored_id = -1) {
    return [=] { accuracy(zeros({2, 3}), ids, ignored_id); };
  };
  check_error<ShapeError>("accuracy: logits|(2, 3)|(1, 2, vocabulary)", share(Ids{{1, 2}}));
  check_error<ValueError>("accuracy: target (1) is 3", share(Ids::from({0, 3})));
  check_error<ValueError>("accuracy: target", share(Ids::from({0, -1}), 7));
  check_error<ValueError>("accuracy: all 2 targets|(id 2)", share(Ids::from({2, 2}), 2));
}

TEST_CASE("accuracy is the fraction of targets that have the largest logit of their row") {
  for (const DType dtype : dtypes) {
    // The first largest logits of the rows are at 1, 0, 1 and 2.
    const Tensor logits = Tensor::from({2, 2, 3}, {1, 2, 0, 5, 5, 4, -inf, -1, -2, 0, 1, 3}, dtype);
    CHECK(accuracy(logits, Ids{{1, 0}, {1, 2}}) == 1.0);
    CHECK(accuracy(logits, Ids{{1, 1}, {0, 2}}) == 0.5);  // the first of equal maxima
    CHECK(accuracy(logits, Ids{{0, 1}, {0, 0}}) == 0.0);
    CHECK(accuracy(logits, Ids{{1, -1}, {0, -1}}, -1) == 0.5);
    CHECK(accuracy(logits, Ids{{1, 0}, {0, 2}}, 0) == 1.0);  // an ignored id may be a class
  }
  CHECK(accuracy(Tensor::from({1.0, 3.0}), Ids(Shape{}, 1)) == 1.0);
}

TEST_CASE("mean_squared_error and binary cross entropy give hand-worked losses and gradients") {
  const double e50 = std::exp(-50.0);
  check_worked({
      worked("mean_squared_error", {exact({2, 2}, {1, 2, 3, 4}), exact({2, 2}, {1, 0, 4, 1})},
             [](const Operands& o) { return mean_squared_error(o[0], o[1]); }, exact({}, {3.5}),
             {2}, {{0, 2, -1, 3}, {0, -2, 1, -3}}),
      // sigmoid = 1/2, 3/4, 1/4
      worked("binary cross entropy", {exact({0, ln3, -ln3}), exact({1, 0, 0.5})}, binary_loss,
             exact({}, {(ln2 + ln4 + 0.5 * ln4 - 0.5 * std::log(0.75)) / 3}), {6},
             {{-1, 1.5, -0.5}, {0, -2 * ln3, 2 * ln3}}),
      binary_case("1e4", {1e4, 1e4, -1e4, -1e4}, {1, 0, 0, 1}, 5e3, {0, 0.25, 0, -0.25}),
      binary_case("infinite and correct", {inf, -inf}, {1, 0}, 0, {0, 0}),
      binary_case("infinite and wrong", {inf, -inf}, {1, 1}, inf, {0, -0.5}),
      binary_case("infinite and in between", {-inf}, {0.5}, inf),
      binary_case("NaN", {not_a_number}, {0.5}, not_a_number),
  });
  for (const DType dtype : dtypes) {  // small losses are not rounded to 0
    const Results right = results_of(
        binary_loss, {Tensor::from({50.0, -50.0}, dtype), Tensor::from({1.0, 0.0}, dtype)});
    CHECK(right.y[0] == doctest::Approx(e50).epsilon(1e-6).scale(0.0));
    CHECK(right.gradients[0][0] / right.gradients[0][1] == doctest::Approx(-1.0));
    CHECK(std::abs(right.gradients[0][0]) > 0.01 * e50);
  }
}

TEST_CASE("losses reject targets of a different shape and targets that are not probabilities") {
  const Tensor x = zeros({2, 2});
  check_error<ShapeError>("mean_squared_error: prediction|(2, 2)|target (2)",
                          [&] { mean_squared_error(x, zeros({2})); });
  check_error<ShapeError>("mean_squared_error",
                          [&] { mean_squared_error(zeros({0}), zeros({0})); });
  check_error<ShapeError>("binary_cross_entropy_with_logits: logits|(2, 2)|target (2)",
                          [&] { binary_cross_entropy_with_logits(x, zeros({2})); });
  check_error<ShapeError>("binary",
                          [&] { binary_cross_entropy_with_logits(zeros({0}), zeros({0})); });
  const auto with = [&](const Tensor& target) {
    return [&x, target] { binary_cross_entropy_with_logits(x, target); };
  };
  check_error<ValueError>("target [1, 0] is 1.5|<= 1", with(Tensor::from({{0, 1}, {1.5, -1}})));
  check_error<ValueError>("target [1, 1] is -0.25", with(Tensor::from({{0, 1}, {1, -0.25}})));
  check_error<ValueError>("target [0, 0]", with(Tensor::full({2, 2}, not_a_number)));
}

TEST_CASE("linear_cross_entropy equals cross_entropy of linear for sizes around a vector") {
  for (const std::size_t vocabulary : {1, 2, 7, 8, 15, 16, 17, 31, 33}) {
    for (const double alpha : {0.0, 0.1}) {
      check_against_parts({2, 3, 5, vocabulary, alpha});
      check_against_parts({3, 1, 1, vocabulary, alpha, false});
      check_against_parts({2, 5, 17, vocabulary, alpha, true, 3});
    }
  }
}

TEST_CASE("linear_cross_entropy equals cross_entropy of linear for sizes around a chunk") {
  for (const std::size_t rows : {95, 96, 97, 192, 193, 200}) {
    check_against_parts({rows, 1, 3, 11000, 0.1});
  }
  check_against_parts(
      {25, 9, 3, 11000, 0.1, true, 2});  // 112 rows are not ignored: more than one chunk
  check_against_parts({130, 2, 2, 8000, 0.0, false, 7});
}

TEST_CASE("linear_cross_entropy: an ignored target has no loss and no gradient, for any x") {
  const Problem p{.rows = 3, .length = 4, .d = 6, .vocabulary = 9, .ignore_every = 2};
  const auto run = [&](double behind) {
    Operands o = p.operands(DType::float64);
    for (std::size_t i = 0; i < o[0].size(); ++i) {
      if (i / 6 % 2 == 0) o[0].mutable_values<double>()[i] = behind;
    }
    return results_of(
        [&](const Operands& x) {
          return linear_cross_entropy(x[0], x[1], x[2], p.targets(), p.options()).mean;
        },
        o);
  };
  const Results clean = run(0.5);
  CHECK(run(not_a_number) == clean);
  for (std::size_t i = 0; i < 72; ++i) CHECK((clean.gradients[0][i] == 0.0) == (i / 6 % 2 == 0));
}

TEST_CASE("linear_cross_entropy is 0 with zero gradients if all targets are ignored") {
  const Results results = results_of(
      [](const Operands& o) {
        return linear_cross_entropy(o[0], o[1], o[2], Ids{{ignored, ignored}},
                                    {.ignored_id = ignored, .normalizer = 5})
            .mean;
      },
      {random_leaf({1, 2, 3}, 1), random_leaf({4, 3}, 2), random_leaf({4}, 3)});
  CHECK(results ==
        Results{{0.0}, {std::vector(6, 0.0), std::vector(12, 0.0), std::vector(4, 0.0)}});
}

TEST_CASE("linear_cross_entropy rejects shapes that do not fit") {
  const Tensor x = zeros({1, 2, 3}), weight = zeros({4, 3}), bias = zeros({4});
  const Ids ids{{3, 1}};
  const auto call = [&](const Tensor& in, const Tensor& w, const Tensor& b, const Ids& targets,
                        const CrossEntropyOptions& options = {}) {
    return [=] { linear_cross_entropy(in, w, b, targets, options); };
  };
  check_error<ShapeError>("linear_cross_entropy: weight|(4)|(vocabulary, d)",
                          call(x, zeros({4}), bias, ids));
  check_error<ShapeError>("weight|(0, 3)|(vocabulary, d)", call(x, zeros({0, 3}), bias, ids));
  check_error<ShapeError>("x|(1, 3, 3)|(1, 2, 3)|(4, 3)",
                          call(zeros({1, 3, 3}), weight, bias, ids));
  check_error<ShapeError>("bias|(3)|(4)|(4, 3)", call(x, weight, zeros({3}), ids));
  check_error<ValueError>("linear_cross_entropy: target (0, 1) is 4",
                          call(x, weight, bias, Ids{{3, 4}}));
  check_error<ValueError>("label_smoothing", call(x, weight, bias, ids, {.label_smoothing = 1.0}));
  check_error<ValueError>("ignored", call(x, weight, bias, Ids{{7, 7}}, {.ignored_id = 7}));
}
