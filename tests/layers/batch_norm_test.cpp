#include "layers/norm.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

#include "autograd/error.h"
#include "autograd/tape.h"
#include "layers/basic_layers.h"
#include "tests/support/gradients.h"
#include "tests/support/parameters.h"
#include "tests/support/threads.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

/// A training loop that commits averages itself.
const Mode training = Mode::training(RandomStream(1)).with_deferred_averages();

struct Made {
  explicit Made(std::size_t n, DType dtype = DType::float64, double epsilon = 1e-5)
      : parameters(dtype, 1), layer(Scope(parameters) / "norm", n, epsilon) {}

  std::vector<double> running_mean() const { return values_of(parameters.buffers()[0].tensor); }
  std::vector<double> running_var() const { return values_of(parameters.buffers()[1].tensor); }

  Parameters parameters;
  BatchNorm layer;
};

/// A training forward that is recorded.
Tensor train(const Made& made, const Tensor& x) {
  Tape tape;
  return made.layer(x, {}, training);
}

}  // namespace

TEST_CASE("batch norm normalizes by the batch in training, by the running moments in inference") {
  for (const DType dtype : dtypes) {
    Made made(2, dtype, 4.0);
    set_values(made.parameters, "norm.weight", {3, 10});
    set_values(made.parameters, "norm.bias", {1, -1});
    // Means 4 and 2, biased variances 5 and 0, unbiased 20 / 3 and 0.
    const Tensor x = Tensor::from({2, 2, 2}, {1, 2, 3, 2, 5, 2, 7, 2}, dtype);
    check_values(train(made, x), {-2, -1, 0, -1, 2, -1, 4, -1}, tolerance(dtype));
    made.parameters.commit_buffers();
    check_values(made.parameters.buffers()[0].tensor, {0.4, 0.2}, tolerance(dtype));
    check_values(made.parameters.buffers()[1].tensor, {0.9 + 2.0 / 3, 0.9}, tolerance(dtype));
    const double a = 3 / std::sqrt(0.9 + 2.0 / 3 + 4), b = 10 / std::sqrt(4.9);
    check_values(made.layer(Tensor::from({1, 2}, {1.4, 0.2}, dtype), {}, Mode::inference()),
                 {a + 1, -1}, tolerance(dtype));
    check_values(made.layer(Tensor::from({1, 2}, {0.4, 1.2}, dtype), {}, Mode::inference()),
                 {1, b - 1}, tolerance(dtype));
  }
}

TEST_CASE("a batch norm without padding accepts any leading axes, also in a Sequential") {
  const Tensor x = random_normal({3, 4, 2}, RandomStream(1), DType::float64);
  Made made(2, DType::float64, 4.0);
  for (const Mode& mode : {Mode::training(RandomStream(1)), Mode::inference()}) {
    const Tensor y = made.layer(x, mode);
    CHECK(y.to_vector() == made.layer(x, {}, mode).to_vector());
    CHECK(Sequential{made.layer}(x, mode).to_vector() == y.to_vector());
  }
}

TEST_CASE("batch norm excludes padding from the moments and sets it to 0 in training") {
  constexpr std::int32_t lengths[] = {3, 1};
  const Tensor x = random_leaf({2, 3, 2}, 1);
  const auto values = values_of(x);
  const Tensor together = Tensor::from({4, 2}, std::span(values).first(8), DType::float64);
  Tensor spoilt = x.copied(DType::float64);
  std::ranges::fill(spoilt.mutable_values<double>().subspan(8), NAN);
  Made padded(2), packed(2);
  Tape tape;
  auto expected = values_of(packed.layer(together, {}, training));
  expected.resize(12, 0.0);
  CHECK(values_of(padded.layer(spoilt, lengths, training)) == expected);
  padded.parameters.commit_buffers();
  packed.parameters.commit_buffers();
  CHECK(padded.running_mean() == packed.running_mean());
  CHECK(padded.running_var() == packed.running_var());
}

TEST_CASE("a batch norm has weight and bias, and running moments of mean 0 and variance 1") {
  const Made made(3);
  CHECK(listing(made.parameters) == std::vector<std::string>{"norm.weight (3)", "norm.bias (3)"});
  REQUIRE(made.parameters.buffers().size() == 2);
  CHECK(made.parameters.buffers()[0].name == "norm.running_mean");
  CHECK(made.parameters.buffers()[1].name == "norm.running_var");
  CHECK(made.running_mean() == std::vector<double>{0, 0, 0});
  CHECK(made.running_var() == std::vector<double>{1, 1, 1});
}

TEST_CASE("training updates the running moments at once as commit_buffers() does after a step") {
  Made made(3), deferring(3);
  for (const std::uint64_t seed : {1, 2}) {
    const Tensor x = random_leaf({4, 3}, seed);
    {
      Tape tape;
      made.layer(x, {}, Mode::training());
    }
    train(deferring, x);
  }
  CHECK(made.running_mean() != std::vector<double>(3, 0.0));
  CHECK(deferring.running_mean() == std::vector<double>(3, 0.0));
  deferring.parameters.commit_buffers();
  CHECK(made.running_mean() == deferring.running_mean());
  CHECK(made.running_var() == deferring.running_var());
}

TEST_CASE("batch norm trains by Mode::training() with and without a random stream") {
  const Made made(3);
  const Tensor x = random_leaf({4, 3}, 1);
  const auto trained = values_of(made.layer(x, {}, Mode::training()));
  CHECK(values_of(made.layer(x, {}, Mode::training(RandomStream(1)))) == trained);
  CHECK(values_of(made.layer(x, {}, Mode::inference())) != trained);
}

TEST_CASE("deferred running moments stay as they are until they are committed") {
  Made made(3);
  const Tensor x = random_leaf({4, 3}, 1);
  const auto before = values_of(made.layer(x, {}, Mode::inference()));
  train(made, x);
  CHECK(values_of(made.layer(x, {}, Mode::inference())) == before);
  made.parameters.commit_buffers();
  CHECK(values_of(made.layer(x, {}, Mode::inference())) != before);
}

TEST_CASE("a skipped step does not change the running moments") {
  Made skipping(3), plain(3);
  const Tensor first = random_leaf({4, 3}, 1), second = random_leaf({4, 3}, 2);
  train(skipping, second);
  skipping.parameters.clear_gradients();  // the next step begins
  for (Made* made : {&skipping, &plain}) {
    train(*made, first);
    made->parameters.commit_buffers();
  }
  CHECK(skipping.running_mean() == plain.running_mean());
  CHECK(skipping.running_var() == plain.running_var());
}

TEST_CASE("the batches of a step update the running moments one after the other") {
  Made together(3), apart(3);
  const Tensor first = random_leaf({4, 3}, 1), second = random_leaf({4, 3}, 2);
  train(together, first);
  train(together, second);
  together.parameters.commit_buffers();
  for (const Tensor& x : {first, second}) {
    train(apart, x);
    apart.parameters.commit_buffers();
  }
  CHECK(together.running_mean() == apart.running_mean());
  CHECK(together.running_var() == apart.running_var());
}

TEST_CASE("inference, and training without a tape, do not update the running moments") {
  Made made(3);
  const Tensor x = random_leaf({4, 3}, 1);
  made.layer(x, {}, training);
  {
    Tape tape;
    made.layer(x, {}, Mode::inference());
  }
  made.parameters.commit_buffers();
  CHECK(made.running_mean() == std::vector<double>{0, 0, 0});
  CHECK(made.running_var() == std::vector<double>{1, 1, 1});
}

TEST_CASE("batch norm refuses one vector (no unbiased variance) and none (no moments)") {
  Made made(2);
  check_values(train(made, Tensor::from({1, 1, 2}, {5, -3}, DType::float64)), {0, 0});
  CHECK(train(made, Tensor::zeros({0, 3, 2}, DType::float64)).shape() == Shape{0, 3, 2});
  made.parameters.commit_buffers();
  check_values(made.parameters.buffers()[0].tensor, {0.5, -0.3});
  CHECK(made.running_var() == std::vector<double>{1, 1});
}

TEST_CASE("batch norm accepts two vectors") {
  Made made(2);
  train(made, Tensor::from({2, 1, 2}, {5, -3, 7, -3}, DType::float64));
  made.parameters.commit_buffers();
  check_values(made.parameters.buffers()[0].tensor, {0.6, -0.3});
  check_values(made.parameters.buffers()[1].tensor, {0.9 + 0.1 * 2, 0.9});  // 2 is unbiased
}

TEST_CASE("the gradients of a batch norm agree with differences, in training and inference") {
  Made made(5);
  perturb(made.parameters);
  set_values(made.parameters.buffers()[0].tensor, {0.1, -0.2, 0.3, -0.4, 0.5});
  set_values(made.parameters.buffers()[1].tensor, {0.5, 1, 1.5, 2, 2.5});
  const Tensor x = random_leaf({2, 3, 5}, 1);
  check_gradients([&] { return made.layer(x, {}, training); }, made.parameters, {x});
  check_gradients([&] { return made.layer(x, {}, Mode::inference()); }, made.parameters, {x});
}

TEST_CASE("steps of a batch norm have the same bits on any number of threads") {
  CHECK(same_on_any_number_of_threads([] {
    Made made(33, DType::float32);
    for (const std::uint64_t seed : {1, 2, 3}) {
      train(made, random_leaf({1500, 33}, seed).copied(DType::float32));
      made.parameters.commit_buffers();
    }
    return std::pair(made.running_mean(), made.running_var());
  }));
}

TEST_CASE("a batch norm refuses another width and names itself") {
  const Made made(4, DType::float32);
  CHECK_THROWS_WITH_AS(made.layer(Tensor::zeros({2, 3}, DType::float32), {}, training),
                       "norm: batch_norm: weight has shape (4), expected (3) (x is (2, 3))",
                       ShapeError);
  CHECK_THROWS_WITH_AS(made.layer(Tensor::zeros({2, 3}, DType::float32), {}, Mode::inference()),
                       "norm: batch_norm_given: weight has shape (4), expected (3) (x is (2, 3))",
                       ShapeError);
}
