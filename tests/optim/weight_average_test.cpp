#include "optim/weight_average.h"

#include <doctest/doctest.h>

#include "autograd/error.h"
#include "tests/optim/leaves.h"
#include "tests/support/threads.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

void set_values(const NamedTensor& leaf, const std::vector<double>& values) {
  Tensor tensor = leaf.tensor;
  dispatch(tensor.dtype(),
           [&]<class T>() { std::ranges::copy(values, tensor.mutable_values<T>().begin()); });
}

}  // namespace

TEST_CASE("the weight average moves by 1 - decay, and faster in the first updates") {
  for (const DType dtype : dtypes) {
    const std::vector<NamedTensor> p{leaf("p", {2}, {1, -2}, dtype)};
    WeightAverage average(p, 0.5);
    const Tensor mean = average.state().at(0).tensor;
    CHECK(average.state().at(0).name == "p");
    check_values(mean, {1, -2}, tolerance(dtype));
    set_values(p[0], {12, -13});
    average.update(1);  // d = 2 / 11
    check_values(mean, {10, -11}, tolerance(dtype));
    set_values(p[0], {0, 1});
    average.update(100);  // d = 0.5
    check_values(mean, {5, -5}, tolerance(dtype));
    check_values(p[0].tensor, {0, 1});
  }
}

TEST_CASE("the weight average of a constant is the constant in every bit") {
  const std::vector<double> values{1.0, 1.0 / 3, -0.7, 1e-30, 3e38, 0.0};
  for (const DType dtype : dtypes) {
    const std::vector<NamedTensor> p{leaf("p", {6}, values, dtype)};
    const std::vector<double> constant = p[0].tensor.to_vector();
    for (const double decay : {0.9, 0.999, 0.9999, 0.99999, 0.99999999}) {
      CAPTURE(decay);
      WeightAverage average(p, decay);
      for (std::uint64_t t = 1; t <= 20; ++t) average.update(t);
      for (std::uint64_t t = 0; t < 2000; ++t) average.update(1'000'000'000'000 + t);
      CHECK(average.state().at(0).tensor.to_vector() == constant);
    }
  }
}

TEST_CASE("swap() exchanges values and averages, and reset() sets the averages to the values") {
  const std::vector<NamedTensor> p{leaf("p", {2}, {1, 2}), leaf("q", {1}, {3})};
  WeightAverage average(p, 0.9);
  set_values(p[0], {10, 20});
  set_values(p[1], {30});
  average.swap();
  check_values(p[0].tensor, {1, 2});
  check_values(p[1].tensor, {3});
  check_values(average.state().at(1).tensor, {30});
  average.swap();
  check_values(p[0].tensor, {10, 20});
  average.reset();
  check_values(average.state().at(0).tensor, {10, 20});
  check_values(average.state().at(1).tensor, {30});
}

TEST_CASE("a weight average has the same bits on any number of threads, in every element") {
  const auto updated = [](std::size_t threads) {
    const Threads count(threads);
    const std::vector<NamedTensor> p{leaf("p", {400, 101}, uneven(40400, 1), DType::float32)};
    WeightAverage average(p, 0.999);
    for (std::uint64_t t = 1; t <= 3; ++t) {
      set_values(p[0], uneven(40400, static_cast<double>(t + 1)));
      average.update(t);
    }
    return average.state().at(0).tensor.to_vector();
  };
  const std::vector<double> alone = updated(1);
  CHECK(updated(3) == alone);
  double mean = 0, last = 0;
  for (std::uint64_t t = 1; t <= 4; ++t) {
    last = uneven(40400, static_cast<double>(t)).back();
    const double d = static_cast<double>(t) / static_cast<double>(9 + t);  // of update t - 1
    mean = t == 1 ? last : d * mean + (1 - d) * last;
  }
  CHECK(alone.back() == doctest::Approx(mean).epsilon(1e-5));
}

TEST_CASE("a weight average refuses a decay of 0 and 1, an empty list and step 0") {
  const std::vector<NamedTensor> p{leaf("p", {1}, {1})};
  CHECK_THROWS_AS(WeightAverage(p, 0.0), ValueError);
  CHECK_THROWS_AS(WeightAverage(p, 1.0), ValueError);
  CHECK_THROWS_AS(WeightAverage({}, 0.5), ValueError);
  CHECK_THROWS_AS(WeightAverage(p, 0.5).update(0), ValueError);
}
