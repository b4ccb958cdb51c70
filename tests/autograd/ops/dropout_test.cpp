#include "autograd/ops/dropout.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>

#include "autograd/error.h"
#include "autograd/kernels/philox.h"
#include "autograd/ops/add.h"
#include "autograd/tape.h"
#include "tests/support/gradients.h"
#include "tests/support/threads.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::testing;

namespace {

const RandomStream random_stream = RandomStream(7).named("dropout").at(3);

}  // namespace

TEST_CASE("dropout keeps element i if its half of a word is at least rate * 2^16") {
  std::uint32_t words[kernels::philox_group];
  kernels::philox_words(random_stream.key(), 1, words);
  for (const DType dtype : dtypes) {
    const Tensor y = dropout(Tensor::full({2, 100}, 3.0, dtype), 0.25, random_stream);
    const std::vector<double> found = values_of(y);
    for (std::size_t i = 128; i < 200; ++i) {
      CAPTURE(i);
      const std::uint32_t word = words[(i - 128) / 2];
      const std::uint32_t half = i % 2 == 0 ? word & 0xffffU : word >> 16;
      const double expected = half >= std::uint32_t{1} << 14 ? 4.0 : 0.0;
      CHECK(found[i] == doctest::Approx(expected).epsilon(tolerance(dtype)));
    }
  }
}

TEST_CASE("dropout at rate 0, and with a stream that is off, returns x itself") {
  const Tensor x = Tensor::from({2}, {1.0, 2.0}, DType::float32);
  CHECK(dropout(x, 0.0, random_stream).memory().data() == x.memory().data());
  CHECK(dropout(x, 0.5, RandomStream()).memory().data() == x.memory().data());
  CHECK(dropout(x, 1.0, RandomStream()).memory().data() == x.memory().data());
}

TEST_CASE("dropout at rate 1 gives zeros and zero gradient") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::full({100}, 5.0, dtype).require_gradient();
    Tape tape;
    const Tensor y = dropout(x, 1.0, random_stream);
    check_values(y, std::vector<double>(100, 0.0));
    tape.backward(y, x);
    check_values(x.gradient(), std::vector<double>(100, 0.0));
  }
}

TEST_CASE("dropout at rate 1 gives zeros with zero gradient for NaN and infinity too") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::from({3}, {nan, std::numeric_limits<double>::infinity(), 1.0}, dtype)
                         .require_gradient();
    Tape tape;
    const Tensor y = dropout(x, 1.0, random_stream);
    check_values(y, {0.0, 0.0, 0.0});
    tape.backward(y, Tensor::from({3}, {nan, nan, 1.0}, dtype));
    check_values(x.gradient(), {0.0, 0.0, 0.0});
  }
}

TEST_CASE("dropout at rate 0 passes the gradient on as it is") {
  const Tensor x = Tensor::from({2}, {1.0, 2.0}, DType::float32).require_gradient();
  Tape tape;
  tape.backward(dropout(x, 0.0, random_stream) + x, Tensor::from({2}, {3.0, 4.0}, DType::float32));
  check_values(x.gradient(), {6.0, 8.0});
}

TEST_CASE("what dropout drops becomes 0 even if it was not finite") {
  const Tensor x = Tensor::full({100}, std::numeric_limits<double>::infinity(), DType::float32);
  const std::vector<double> y = values_of(dropout(x, 0.5, random_stream));
  CHECK(std::ranges::count(y, 0.0) > 0);
  CHECK(std::ranges::count(y, std::numeric_limits<double>::infinity()) > 0);
  CHECK(std::ranges::none_of(y, [](double v) { return v != v; }));
}

TEST_CASE("dropout drops as often as it is told and keeps the mean") {
  for (const double rate : {0.1, 0.5, 0.9}) {
    const std::size_t n = 100000;
    const Tensor x = Tensor::full({n}, 1.0, DType::float64);
    const std::vector<double> y = values_of(dropout(x, rate, random_stream));
    const auto dropped = static_cast<double>(std::ranges::count(y, 0.0)) / static_cast<double>(n);
    CHECK(dropped == doctest::Approx(rate).epsilon(0.02));
    const double kept = *std::ranges::max_element(y);
    CHECK(kept == doctest::Approx(1.0 / (1.0 - rate)));
  }
}

TEST_CASE("dropout draws the same from one stream and something else from another") {
  const Tensor x = Tensor::full({200}, 1.0, DType::float32);
  const std::vector<double> y = values_of(dropout(x, 0.5, random_stream));
  CHECK(values_of(dropout(x, 0.5, random_stream)) == y);
  CHECK(values_of(dropout(x, 0.5, random_stream.at(0))) != y);
}

TEST_CASE("dropout draws the same in float32 and float64, in a longer tensor and on any threads") {
  const auto kept_of = [](std::size_t n, DType dtype) {
    return values_of(dropout(Tensor::full({n}, 1.0, dtype), 0.5, random_stream));
  };
  const std::vector<double> all = kept_of(40000, DType::float32);
  CHECK(kept_of(40000, DType::float64) == all);
  CHECK(kept_of(33333, DType::float32) == std::vector<double>(all.begin(), all.begin() + 33333));
  CHECK(same_on_any_number_of_threads([&] { return kept_of(40000, DType::float32); }));
}

TEST_CASE("the gradient of dropout drops what the forward dropped, and adds to what is there") {
  for (const DType dtype : dtypes) {
    const Tensor x = Tensor::full({3, 50}, 1.0, dtype).require_gradient();
    Tape tape;
    const Tensor y = dropout(x, 0.4, random_stream);
    tape.backward(y + x, Tensor::full({3, 50}, 1.0, dtype));
    check_values(x.gradient(), values_of(y + Tensor::full({3, 50}, 1.0, dtype)), tolerance(dtype));
  }
}

TEST_CASE("the gradient of dropout agrees with differences, around groups and vectors too") {
  for (const std::size_t n : {1, 7, 16, 63, 64, 65, 130}) {
    const Tensor x = random_leaf({n}, n);
    CAPTURE(n);
    CHECK(gradient_error([&] { return dropout(x, 0.3, random_stream); }, {x}) < 1e-6);
  }
}

TEST_CASE("dropout takes scalars and empty tensors") {
  CHECK(dropout(Tensor::zeros({0, 3}, DType::float32), 0.5, random_stream).size() == 0);
  CHECK(dropout(Tensor::scalar(1.0, DType::float32), 0.5, random_stream).shape() == Shape{});
}

TEST_CASE("dropout refuses rates outside 0 to 1, though its stream be off") {
  const Tensor x = Tensor::zeros({2}, DType::float32);
  CHECK_THROWS_WITH_AS(dropout(x, 1.5, random_stream), "dropout: the rate is 1.5, expected 0 to 1",
                       ValueError);
  CHECK_THROWS_AS(dropout(x, -0.1, RandomStream()), ValueError);
  CHECK_THROWS_AS(dropout(x, std::numeric_limits<double>::quiet_NaN(), random_stream), ValueError);
}
