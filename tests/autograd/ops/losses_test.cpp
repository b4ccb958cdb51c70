#include "autograd/ops/losses.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "autograd/error.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/reductions.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/tape.h"
#include "tests/support/gradients.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

}  // namespace

TEST_CASE("cross entropy is minus the mean log-probability of the targets") {
  for (const DType dtype : dtypes) {
    const Tensor logits = Tensor::from(
        {1, 2, 2}, {std::log(1.0), std::log(3.0), std::log(2.0), std::log(2.0)}, dtype);
    const double expected = (-std::log(0.75) - std::log(0.5)) / 2;
    check_values(cross_entropy(logits, Ids{{1, 0}}).mean, {expected}, tolerance(dtype));
  }
}

TEST_CASE("equal logits have the loss ln(vocabulary), whatever the smoothing") {
  const Tensor logits = Tensor::full({1, 3, 50}, 2.0, DType::float64);
  for (const double alpha : {0.0, 0.1, 0.9}) {
    check_values(cross_entropy(logits, Ids{{0, 7, 49}}, {.label_smoothing = alpha}).mean,
                 {std::log(50.0)});
  }
}

TEST_CASE("label smoothing spreads alpha over the whole vocabulary, target included") {
  // p = (0.2, 0.8), target 1, alpha 0.5: weights 0.25 and 0.75.
  const Tensor logits = Tensor::from({1, 1, 2}, {0.0, std::log(4.0)}, DType::float64);
  check_values(cross_entropy(logits, Ids{{1}}, {.label_smoothing = 0.5}).mean,
               {-0.25 * std::log(0.2) - 0.75 * std::log(0.8)});
}

TEST_CASE("cross_entropy returns the sum of -log p(target), unsmoothed, and the target count") {
  const Tensor logits = Tensor::from({1, 2, 2}, {0.0, std::log(4.0), 0.0, 0.0}, DType::float64);
  const Loss loss = cross_entropy(logits, Ids{{1, 0}}, {.label_smoothing = 0.5});
  CHECK(loss.nll_sum == doctest::Approx(-std::log(0.8) - std::log(0.5)));
  CHECK(loss.num_targets == 2);
  const Loss half = cross_entropy(logits, Ids{{1, 9}}, {.ignored_id = 9, .normalizer = 7});
  CHECK(half.nll_sum == doctest::Approx(-std::log(0.8)));
  CHECK(half.num_targets == 1);
}

TEST_CASE("ignored targets have no loss and zero gradient") {
  const Tensor logits = random_leaf({2, 2, 3}, 1);
  const Ids all{{2, 1}, {0, 1}};
  const Ids some{{2, 0}, {0, 0}};
  const auto loss = [&](const Ids& ids, std::int32_t ignored) {
    return cross_entropy(logits, ids, {.ignored_id = ignored}).mean.item();
  };
  CHECK(loss(some, 0) == doctest::Approx(loss(Ids{{2, 7}, {7, 7}}, 7)).epsilon(1e-14));
  CHECK(loss(all, -1) != doctest::Approx(loss(some, 0)));
  Tape tape;
  tape.backward(cross_entropy(logits, some, {.ignored_id = 0}).mean);
  const auto gradient = values_of(logits.gradient());
  for (std::size_t i = 0; i < 3; ++i) CHECK(gradient[i] != 0.0);
  for (std::size_t i = 3; i < 12; ++i) CHECK(gradient[i] == 0.0);
}

TEST_CASE("an ignored target does not change gradients that other uses of the logits contribute") {
  const Tensor logits = Tensor::zeros({1, 2, 2}, DType::float64).require_gradient();
  Tape tape;
  const Tensor loss = cross_entropy(logits, Ids{{1, 9}}, {.ignored_id = 9}).mean;
  tape.backward(loss + sum(logits));  // the sum comes last, so its gradient is there first
  check_values(logits.gradient(), {1.5, 0.5, 1.0, 1.0});
}

TEST_CASE("with a normalizer the losses of parts add up to the loss of the whole") {
  const Tensor logits = random_leaf({2, 3, 5}, 1);
  const auto part = [&](std::size_t row) {
    const auto values = logits.values<double>().subspan(row * 15, 15);
    return Tensor::from({1, 3, 5}, values, DType::float64);
  };
  const Ids ids{{1, 2, 0}, {3, 0, 0}};
  const double whole = cross_entropy(logits, ids, {.ignored_id = 0}).mean.item();
  const CrossEntropyOptions shared{.ignored_id = 0, .normalizer = 3};
  const double parts = cross_entropy(part(0), Ids{{1, 2, 0}}, shared).mean.item() +
                       cross_entropy(part(1), Ids{{3, 0, 0}}, shared).mean.item();
  CHECK(parts == doctest::Approx(whole).epsilon(1e-14));
  CHECK(cross_entropy(part(0), Ids{{0, 0, 0}}, shared).mean.item() == 0.0);
}

TEST_CASE("the gradient of cross entropy agrees with differences") {
  for (const std::size_t vocabulary : {1, 2, 7, 8, 17}) {
    const Tensor logits = random_leaf({2, 2, vocabulary}, vocabulary);
    const auto last = static_cast<std::int32_t>(vocabulary - 1);
    for (const double alpha : {0.0, 0.3}) {
      const CrossEntropyOptions options{.ignored_id = 99, .label_smoothing = alpha};
      const Ids ids{{0, 99}, {last, last}};
      CAPTURE(vocabulary);
      CHECK(gradient_error([&] { return cross_entropy(logits, ids, options).mean; }, {logits}) <
            1e-6);
    }
  }
}

TEST_CASE("cross entropy is finite for logits of 1e4 either way") {
  for (const DType dtype : dtypes) {
    const Tensor logits = Tensor::from({1, 1, 2}, {1e4, -1e4}, dtype);
    check_values(cross_entropy(logits, Ids{{0}}).mean, {0.0});
    check_values(cross_entropy(logits, Ids{{1}}).mean, {2e4});
  }
}

TEST_CASE("the gradient of cross entropy is finite for logits of 1e4 either way") {
  for (const DType dtype : dtypes) {
    const Tensor logits = Tensor::from({1, 2, 2}, {1e4, -1e4, 1e4, -1e4}, dtype).require_gradient();
    Tape tape;
    tape.backward(cross_entropy(logits, Ids{{0, 1}}).mean);
    check_values(logits.gradient(), {0.0, 0.0, 0.5, -0.5});
  }
}

TEST_CASE("a logit of -inf excludes its class, and gives infinite loss only as the target") {
  for (const DType dtype : dtypes) {
    const Tensor logits = Tensor::from({1, 1, 3}, {0.0, 0.0, -inf}, dtype).require_gradient();
    Tape tape;
    const Tensor loss = cross_entropy(logits, Ids{{0}}).mean;
    check_values(loss, {std::log(2.0)}, tolerance(dtype));
    tape.backward(loss);
    check_values(logits.gradient(), {-0.5, 0.5, 0.0}, tolerance(dtype));
    CHECK(cross_entropy(logits, Ids{{2}}).mean.item() == inf);
    CHECK(cross_entropy(logits, Ids{{0}}, {.label_smoothing = 0.1}).mean.item() == inf);
  }
}

TEST_CASE("cross_entropy propagates NaN and +inf") {
  for (const DType dtype : dtypes) {
    for (const double bad : {not_a_number, inf}) {
      const Tensor logits = Tensor::from({1, 1, 2}, {0.0, bad}, dtype);
      CHECK(std::isnan(cross_entropy(logits, Ids{{1}}).mean.item()));
    }
  }
}

TEST_CASE("NaN and infinity at ignored targets affect neither loss nor gradients") {
  for (const DType dtype : dtypes) {
    for (const double bad : {not_a_number, inf, -inf}) {
      const Tensor logits = Tensor::from({1, 2, 2}, {0.0, 0.0, bad, bad}, dtype).require_gradient();
      Tape tape;
      const Tensor loss =
          cross_entropy(logits, Ids{{1, 9}}, {.ignored_id = 9, .label_smoothing = 0.2}).mean;
      check_values(loss, {std::log(2.0)}, tolerance(dtype));
      tape.backward(loss);
      check_values(logits.gradient(), {0.4, -0.4, 0.0, 0.0}, tolerance(dtype));
    }
  }
}

TEST_CASE("cross entropy of a vocabulary of one word is 0, and so is its gradient") {
  const Tensor logits = Tensor::from({1, 2, 1}, {3.0, -1e4}, DType::float64).require_gradient();
  Tape tape;
  const Tensor loss = cross_entropy(logits, Ids{{0, 0}}, {.label_smoothing = 0.3}).mean;
  CHECK(loss.item() == 0.0);
  tape.backward(loss);
  check_values(logits.gradient(), {0.0, 0.0});
}

TEST_CASE("a batch whose targets are all ignored has loss 0 and zero gradient under a normalizer") {
  const Tensor logits = random_leaf({2, 2, 3}, 1);
  Tape tape;
  const Tensor loss =
      cross_entropy(logits, Ids{{0, 0}, {0, 0}}, {.ignored_id = 0, .normalizer = 5}).mean;
  CHECK(loss.item() == 0.0);
  tape.backward(loss);
  check_values(logits.gradient(), std::vector<double>(12, 0.0));
}

TEST_CASE("cross_entropy of 0 targets behaves as if all were ignored") {
  const Tensor logits = Tensor::zeros({2, 0, 3}, DType::float32);
  CHECK_THROWS_WITH_AS(
      cross_entropy(logits, Ids(Shape{2, 0}), {.ignored_id = 1}),
      "cross_entropy: all 0 targets are ignored (id 1), expected at least one that counts",
      ValueError);
}

TEST_CASE("cross_entropy refuses shapes that do not fit, with the expected shape") {
  const Tensor logits = Tensor::zeros({1, 2, 3}, DType::float32);
  CHECK_THROWS_WITH_AS(cross_entropy(logits, Ids{{1, 2, 0}}),
                       "cross_entropy: logits have shape (1, 2, 3), expected (1, 3, vocabulary) "
                       "(targets are (1, 3))",
                       ShapeError);
  CHECK_THROWS_WITH_AS(cross_entropy(Tensor::zeros({2, 5, 3}, DType::float32),
                                     Ids{{0, 1, 2, 0, 1}, {2, 1, -3, 0, 1}}),
                       "cross_entropy: target (1, 2) is -3, expected 0 <= id < 3", ValueError);
  for (const Shape& shape : {Shape{2, 2, 3}, Shape{1, 3, 3}, Shape{1, 2, 0}, Shape{2, 3}}) {
    CHECK_THROWS_AS(cross_entropy(Tensor::zeros(shape, DType::float32), Ids{{1, 2}}), ShapeError);
  }
  for (const double alpha : {-0.1, not_a_number, inf}) {
    CHECK_THROWS_AS(cross_entropy(logits, Ids{{1, 1}}, {.label_smoothing = alpha}), ValueError);
  }
  CHECK_THROWS_WITH_AS(cross_entropy(logits, Ids{{1, 3}}),
                       "cross_entropy: target (0, 1) is 3, expected 0 <= id < 3", ValueError);
  CHECK_THROWS_WITH_AS(
      cross_entropy(logits, Ids{{1, 1}}, {.ignored_id = 1}),
      "cross_entropy: all 2 targets are ignored (id 1), expected at least one that counts",
      ValueError);
  CHECK_THROWS_WITH_AS(cross_entropy(logits, Ids{{1, 1}}, {.label_smoothing = 1.0}),
                       "cross_entropy: label_smoothing is 1, expected 0 <= alpha < 1", ValueError);
}

TEST_CASE("accuracy is the share of targets that have the largest logit of their row") {
  for (const DType dtype : dtypes) {
    const Tensor logits =
        Tensor::from({2, 2, 3}, {1, 2, 0, 5, 5, 4, -inf, -1, -2, 0, 1, 3}, dtype);  // 1 0 1 2
    CHECK(accuracy(logits, Ids{{1, 0}, {1, 2}}) == 1.0);
    CHECK(accuracy(logits, Ids{{1, 1}, {0, 2}}) == 0.5);  // of equal maxima, the first
    CHECK(accuracy(logits, Ids{{0, 1}, {0, 0}}) == 0.0);
    CHECK(accuracy(logits, Ids{{1, -1}, {0, -1}}, -1) == 0.5);
    CHECK(accuracy(logits, Ids{{1, 0}, {0, 2}}, 0) == 1.0);  // an ignored id may be a class
  }
  CHECK(accuracy(Tensor::from({1.0, 3.0}), Ids(Shape{}, 1)) == 1.0);
}

TEST_CASE("accuracy refuses shapes that do not fit, with the expected shape") {
  const Tensor logits = Tensor::zeros({2, 3});
  CHECK_THROWS_WITH_AS(
      accuracy(logits, Ids{{1, 2}}),
      "accuracy: logits have shape (2, 3), expected (1, 2, vocabulary) (targets are (1, 2))",
      ShapeError);
  CHECK_THROWS_WITH_AS(accuracy(logits, Ids::from({0, 3})),
                       "accuracy: target (1) is 3, expected 0 <= id < 3", ValueError);
  CHECK_THROWS_AS(accuracy(logits, Ids::from({0, -1})), ValueError);
  CHECK_THROWS_WITH_AS(
      accuracy(logits, Ids::from({2, 2}), 2),
      "accuracy: all 2 targets are ignored (id 2), expected at least one that counts", ValueError);
}

TEST_CASE("mean_squared_error of a hand-worked pair, with both gradients") {
  for (const DType dtype : dtypes) {
    const Tensor prediction = Tensor::from({2, 2}, {1.0, 2.0, 3.0, 4.0}, dtype).require_gradient();
    const Tensor target = Tensor::from({2, 2}, {1.0, 0.0, 4.0, 1.0}, dtype).require_gradient();
    Tape tape;
    const Tensor loss = mean_squared_error(prediction, target);
    check_values(loss, {(0.0 + 4.0 + 1.0 + 9.0) / 4.0}, tolerance(dtype));
    CHECK(loss.shape() == Shape{});
    tape.backward(scale(loss, 2.0));
    check_values(prediction.gradient(), {0.0, 2.0, -1.0, 3.0}, tolerance(dtype));
    check_values(target.gradient(), {0.0, -2.0, 1.0, -3.0}, tolerance(dtype));
  }
}

TEST_CASE("mean_squared_error is the mean of the squared difference") {
  const Tensor a = random_leaf({5, 13}, 1);
  const Tensor b = random_leaf({5, 13}, 2);
  check_values(mean_squared_error(a, b), values_of(mean(square(a - b))));
}

TEST_CASE("mean_squared_error computes no gradient of a target that requires none") {
  const Tensor prediction = Tensor::scalar(3.0, DType::float32).require_gradient();
  const Tensor target = Tensor::scalar(1.0, DType::float32);
  Tape tape;
  tape.backward(mean_squared_error(prediction, target));
  check_values(prediction.gradient(), {4.0});
  CHECK_FALSE(target.gradient().defined());
}

TEST_CASE("mean_squared_error of a tensor with itself is 0, and so is its gradient") {
  const Tensor x = Tensor::from({2}, {1.0, 2.0}, DType::float32).require_gradient();
  Tape tape;
  const Tensor loss = mean_squared_error(x, x);
  check_values(loss, {0.0});
  tape.backward(loss);
  check_values(x.gradient(), {0.0, 0.0});
}

TEST_CASE("the gradient of mean_squared_error agrees with differences") {
  const Tensor a = random_leaf({3, 9}, 1);
  const Tensor b = random_leaf({3, 9}, 2);
  CHECK(gradient_error([&] { return mean_squared_error(a, b); }, {a, b}) < 1e-6);
}

TEST_CASE("mean_squared_error refuses shapes that differ, empty ones and mixed element types") {
  const Tensor x = Tensor::zeros({2, 3}, DType::float32);
  CHECK_THROWS_WITH_AS(mean_squared_error(x, Tensor::zeros({3}, DType::float32)),
                       "mean_squared_error: prediction has shape (2, 3) and target (3), expected "
                       "one shape with at least 1 element",
                       ShapeError);
  const Tensor none = Tensor::zeros({0}, DType::float32);
  CHECK_THROWS_AS(mean_squared_error(none, none), ShapeError);
  CHECK_THROWS_WITH_AS(
      mean_squared_error(x, Tensor::zeros({2, 3}, DType::float64)),
      "mean_squared_error: operands are float32 and float64, expected one element type",
      DTypeError);
}

TEST_CASE("cross_entropy takes targets of any shape, with the bits of a batch of single rows") {
  const Tensor flat = random_leaf({6, 5}, 1);
  const std::vector<std::int32_t> ids{0, 4, 2, 3, 1, 1};
  const double expected = cross_entropy(flat, Ids(Shape{6}, ids)).mean.item();
  CHECK(cross_entropy(flat.viewed_as({2, 3, 5}), Ids(Shape{2, 3}, ids)).mean.item() == expected);
  CHECK(cross_entropy(flat.viewed_as({1, 3, 2, 5}), Ids(Shape{1, 3, 2}, ids)).mean.item() ==
        expected);
  CHECK(cross_entropy(Tensor::zeros({4}), Ids(Shape{}, 2)).mean.item() ==
        doctest::Approx(std::log(4.0)));
  CHECK(gradient_error([&] { return cross_entropy(flat, Ids(Shape{6}, ids)).mean; }, {flat}) <
        1e-6);
  CHECK_THROWS_WITH_AS(cross_entropy(flat, Ids(Shape{5})),
                       "cross_entropy: logits have shape (6, 5), expected (5, vocabulary) (targets "
                       "are (5))",
                       ShapeError);
  CHECK_THROWS_WITH_AS(cross_entropy(flat, Ids(Shape{6}, 5)),
                       "cross_entropy: target (0) is 5, expected 0 <= id < 5", ValueError);
}

TEST_CASE("binary cross entropy of a hand-worked example, with both gradients") {
  for (const DType dtype : dtypes) {
    // sigmoid = 1/2, 3/4, 1/4
    const Tensor logits =
        Tensor::from({0.0, std::log(3.0), -std::log(3.0)}, dtype).require_gradient();
    const Tensor target = Tensor::from({1.0, 0.0, 0.5}, dtype).require_gradient();
    Tape tape;
    const Tensor loss = binary_cross_entropy_with_logits(logits, target);
    CHECK(loss.shape() == Shape{});
    const double expected =
        -(std::log(0.5) + std::log(0.25) + 0.5 * std::log(0.25) + 0.5 * std::log(0.75)) / 3;
    check_values(loss, {expected}, tolerance(dtype));
    tape.backward(scale(loss, 6.0));
    check_values(logits.gradient(), {-1.0, 1.5, -0.5}, tolerance(dtype));
    check_values(target.gradient(), {0.0, -2 * std::log(3.0), 2 * std::log(3.0)}, tolerance(dtype));
  }
}

TEST_CASE("binary cross entropy equals cross entropy of two classes, one with logit 0") {
  const Tensor logits = random_leaf({6}, 1, 0.1, 5.0);
  const Tensor both = stack({Tensor::zeros({6}, DType::float64), logits}, 1);
  const Ids classes = Ids::from({0, 1, 1, 0, 1, 0});
  const Tensor target = Tensor::from({0, 1, 1, 0, 1, 0}, DType::float64);
  check_values(binary_cross_entropy_with_logits(logits, target),
               cross_entropy(both, classes).mean.to_vector());
}

TEST_CASE("binary cross entropy of logits of 1e4 is exact, and so is its gradient") {
  for (const DType dtype : dtypes) {
    const Tensor logits = Tensor::from({1e4, 1e4, -1e4, -1e4}, dtype).require_gradient();
    const auto loss = [&](std::size_t i, double t) {
      return binary_cross_entropy_with_logits(logits[static_cast<std::ptrdiff_t>(i)],
                                              Tensor::scalar(t, dtype))
          .item();
    };
    CHECK(loss(0, 1.0) == 0.0);
    CHECK(loss(0, 0.0) == 1e4);
    CHECK(loss(2, 1.0) == 1e4);
    CHECK(loss(2, 0.0) == 0.0);
    Tape tape;
    tape.backward(
        binary_cross_entropy_with_logits(logits, Tensor::from({1.0, 0.0, 0.0, 1.0}, dtype)));
    check_values(logits.gradient(), {0.0, 0.25, 0.0, -0.25});
  }
}

TEST_CASE("binary cross entropy of confident right answers has no cancellation, nor its gradient") {
  for (const DType dtype : dtypes) {
    for (const double sign : {1.0, -1.0}) {
      const Tensor logit = Tensor::scalar(sign * 50.0, dtype).require_gradient();
      Tape tape;
      const Tensor loss =
          binary_cross_entropy_with_logits(logit, Tensor::scalar(sign > 0 ? 1.0 : 0.0, dtype));
      CHECK(loss.item() == doctest::Approx(std::exp(-50.0)).epsilon(1e-6).scale(0.0));
      tape.backward(loss);
      CHECK(logit.gradient().item() ==
            doctest::Approx(-sign * std::exp(-50.0)).epsilon(1e-6).scale(0.0));
    }
  }
}

TEST_CASE("binary cross entropy of infinite logits is 0 for the right target, else infinite") {
  for (const DType dtype : dtypes) {
    const auto loss = [&](double z, double t) {
      return binary_cross_entropy_with_logits(Tensor::scalar(z, dtype), Tensor::scalar(t, dtype))
          .item();
    };
    CHECK(loss(inf, 1.0) == 0.0);
    CHECK(loss(-inf, 0.0) == 0.0);
    CHECK(loss(inf, 0.0) == inf);
    CHECK(loss(-inf, 0.5) == inf);
    for (const double t : {0.0, 0.5, 1.0}) CHECK(std::isnan(loss(not_a_number, t)));
    const Tensor logits = Tensor::from({inf, -inf}, dtype).require_gradient();
    Tape tape;
    tape.backward(binary_cross_entropy_with_logits(logits, Tensor::from({1.0, 1.0}, dtype)));
    check_values(logits.gradient(), {0.0, -0.5});
  }
}

TEST_CASE("the gradient of binary cross entropy agrees with differences, for any shape") {
  for (const Shape& shape : {Shape{}, Shape{3, 9}, Shape{2, 1, 5}}) {
    const Tensor logits = random_leaf(shape, 1, 0.1, 6.0);
    Tensor target = random_leaf(shape, 2);
    for (double& t : target.mutable_values<double>()) t = 0.1 + 0.5 * std::abs(t);
    CHECK(gradient_error([&] { return binary_cross_entropy_with_logits(logits, target); },
                         {logits, target}) < 1e-6);
  }
}

TEST_CASE("binary cross entropy refuses targets outside [0, 1] and names their position") {
  const Tensor logits = Tensor::zeros({2, 2});
  CHECK_THROWS_WITH_AS(
      binary_cross_entropy_with_logits(logits, Tensor::from({{0, 1}, {1.5, -1}})),
      "binary_cross_entropy_with_logits: target [1, 0] is 1.5, expected 0 <= target <= 1",
      ValueError);
  CHECK_THROWS_WITH_AS(
      binary_cross_entropy_with_logits(logits, Tensor::from({{0, 1}, {1, -0.25}})),
      "binary_cross_entropy_with_logits: target [1, 1] is -0.25, expected 0 <= target <= 1",
      ValueError);
  CHECK_THROWS_AS(binary_cross_entropy_with_logits(logits, Tensor::full({2, 2}, not_a_number)),
                  ValueError);
  CHECK_THROWS_WITH_AS(binary_cross_entropy_with_logits(logits, Tensor::zeros({2})),
                       "binary_cross_entropy_with_logits: logits have shape (2, 2) and target (2), "
                       "expected one shape with at least 1 element",
                       ShapeError);
  const Tensor none = Tensor::zeros({0});
  CHECK_THROWS_AS(binary_cross_entropy_with_logits(none, none), ShapeError);
  CHECK_THROWS_AS(binary_cross_entropy_with_logits(logits, Tensor::zeros({2, 2}, DType::float64)),
                  DTypeError);
}
