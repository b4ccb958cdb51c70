#include "layers/parameters.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/support/threads.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

constexpr std::size_t many = 40000;

std::vector<double> drawn(const Initializer& initializer, std::uint64_t seed,
                          DType dtype = DType::float64) {
  Tensor tensor = Tensor::empty({many}, dtype);
  initialize(tensor, initializer, RandomStream(seed));
  return values_of(tensor);
}

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double mean_square(const std::vector<double>& values) {
  return std::inner_product(values.begin(), values.end(), values.begin(), 0.0) /
         static_cast<double>(values.size());
}

}  // namespace

TEST_CASE("zeros and ones initializers fill a tensor with 0 and 1") {
  for (const DType dtype : dtypes) {
    Tensor tensor = Tensor::full({2, 2}, 5, dtype);
    initialize(tensor, zeros_initializer(), RandomStream(1));
    CHECK(values_of(tensor) == std::vector<double>{0, 0, 0, 0});
    initialize(tensor, ones_initializer(), RandomStream(1));
    CHECK(values_of(tensor) == std::vector<double>{1, 1, 1, 1});
  }
}

TEST_CASE("Glorot uniform with fan 4 and 2 maps the stream from (0, 1) to (-1, 1)") {
  const RandomStream random(3);
  const Initializer initializer = glorot_uniform(4, 2);
  for (std::size_t i = 0; i < 5; ++i) {
    CHECK(initializer(random, i) == doctest::Approx(2 * random.uniform(i) - 1).epsilon(1e-15));
  }
}

TEST_CASE("Glorot uniform fills its range evenly and has variance 2 / (fan_in + fan_out)") {
  const auto values = drawn(glorot_uniform(30, 20), 1);
  const double limit = std::sqrt(6.0 / 50.0);
  const auto [lowest, highest] = std::ranges::minmax(values);
  CHECK(lowest > -limit);
  CHECK(lowest < -0.999 * limit);
  CHECK(highest < limit);
  CHECK(highest > 0.999 * limit);
  CHECK(mean_of(values) == doctest::Approx(0.0).epsilon(0.005).scale(1.0));
  CHECK(mean_square(values) == doctest::Approx(2.0 / 50.0).epsilon(0.02));
}

TEST_CASE("a normal initializer has mean 0 and the given standard deviation") {
  const auto values = drawn(normal_initializer(0.25), 1);
  CHECK(mean_of(values) == doctest::Approx(0.0).epsilon(0.005).scale(1.0));
  CHECK(std::sqrt(mean_square(values)) == doctest::Approx(0.25).epsilon(0.02));
  const auto beyond_two = std::ranges::count_if(values, [](double v) { return std::abs(v) > 0.5; });
  CHECK(static_cast<double>(beyond_two) / many == doctest::Approx(0.0455).epsilon(0.1));
}

TEST_CASE("the initial value of an element depends on its index in the whole tensor") {
  const RandomStream random(1);
  const Initializer initializer = normal_initializer(1.0);
  const auto values = drawn(initializer, 1);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < many; ++i) wrong += values[i] != initializer(random, i);
  CHECK(wrong == 0);
}

TEST_CASE("float32 initial values are the float64 values, rounded") {
  const auto exact = drawn(normal_initializer(1.0), 1);
  const auto rounded = drawn(normal_initializer(1.0), 1, DType::float32);
  for (std::size_t i = 0; i < 1000; ++i) CHECK(rounded[i] == static_cast<float>(exact[i]));
}

TEST_CASE("initial values depend on the stream and not on the number of threads") {
  CHECK(same_on_any_number_of_threads([] { return drawn(glorot_uniform(3, 4), 1); }));
  CHECK(drawn(glorot_uniform(3, 4), 1) != drawn(glorot_uniform(3, 4), 2));
}

TEST_CASE("initializers accept an empty tensor") {
  Tensor tensor = Tensor::empty({0, 3}, DType::float32);
  initialize(tensor, ones_initializer(), RandomStream(1));
  CHECK(tensor.size() == 0);
}
