#include "autograd/tensor.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "autograd/error.h"
#include "autograd/ops/comparison.h"
#include "autograd/ops/dropout.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/losses.h"
#include "autograd/ops/norms.h"
#include "autograd/random.h"

using namespace tapestry;

namespace {

/// 0, 1, 2, ... in a shape.
Tensor counted(const Shape& shape) {
  std::vector<double> values(shape.size());
  std::iota(values.begin(), values.end(), 0.0);
  return Tensor::from(shape, values, DType::float64);
}

}  // namespace

TEST_CASE("a tensor is printed row by row, with shape and element type") {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(to_string(Tensor::scalar(2.5, DType::float32)) == "2.5  () float32");
  CHECK(to_string(Tensor::from({3}, {1.0, -0.25, 1e-9}, DType::float64)) ==
        "[    1, -0.25, 1e-09]  (3) float64");
  CHECK(to_string(Tensor::from({2, 2}, {1.0, 2.5, -3.0, nan}, DType::float32)) ==
        "[[  1, 2.5],\n"
        " [ -3, nan]]  (2, 2) float32");
  CHECK(to_string(Tensor::scalar(0.1, DType::float32)) == "0.1  () float32");
}

TEST_CASE("NaN is printed without a sign, in tensors and in errors") {
  const double nan = -std::numeric_limits<double>::quiet_NaN();
  REQUIRE(std::signbit(nan));
  CHECK(to_string(Tensor::scalar(nan, DType::float64)) == "nan  () float64");
  CHECK(to_string(Tensor::from({2}, {nan, -1.0}, DType::float32)) == "[nan,  -1]  (2) float32");
  const Tensor x = Tensor::from({1}, {nan}, DType::float64), zero = zeros_like(x);
  const RandomStream random(1);
  const auto error = [](const auto& call) -> std::string {
    try {
      call();
    } catch (const ValueError& found) {
      return found.what();
    }
    return "no error";
  };
  const std::string errors[] = {
      error([&] { to_ids(x); }),
      error([&] { pow(x, nan); }),
      error([&] { clamp(x, nan, 1.0); }),
      error([&] { dropout(x, nan, random); }),
      error([&] { layer_norm(x, x, x, nan); }),
      error([&] { binary_cross_entropy_with_logits(zero, x); }),
      error([&] { random_uniform({1}, random, nan, 1.0); }),
      error([&] { random_normal({1}, random, 0.0, nan); }),
      error([&] { random_categorical(x, random); }),
      error([&] {
        cross_entropy(Tensor::zeros({1, 2}), Ids{0}, {.label_smoothing = nan});
      })};
  for (const std::string& each : errors) {
    CAPTURE(each);
    CHECK(each.find("nan") != std::string::npos);
    CHECK(each.find("-nan") == std::string::npos);
  }
}

TEST_CASE("printed blocks of a tensor with three axes are separated by an empty line") {
  CHECK(to_string(counted({2, 2, 1})) ==
        "[[[0],\n"
        "  [1]],\n"
        "\n"
        " [[2],\n"
        "  [3]]]  (2, 2, 1) float64");
}

TEST_CASE("tensors without values and empty handles are printed as well") {
  CHECK(to_string(Tensor::zeros({0}, DType::float32)) == "[]  (0) float32");
  CHECK(to_string(Tensor::zeros({2, 0}, DType::float32)) == "[[],\n []]  (2, 0) float32");
  CHECK(to_string(Tensor()) == "(no tensor)");
}

TEST_CASE("of more than 1,000 values, the ends of each long axis are shown") {
  CHECK(to_string(counted({1001})) == "[   0,    1,    2, ...,  998,  999, 1000]  (1001) float64");
  CHECK(to_string(counted({1000})).size() > 4000);
  const std::string text = to_string(counted({1001, 2}));
  CHECK(text ==
        "[[   0,    1],\n"
        " [   2,    3],\n"
        " [   4,    5],\n"
        " ...,\n"
        " [1996, 1997],\n"
        " [1998, 1999],\n"
        " [2000, 2001]]  (1001, 2) float64");
  // An axis of seven is not shorter with its middle left out.
  CHECK(to_string(counted({7, 200})).find("...,\n") == std::string::npos);
  CHECK(to_string(counted({8, 200})).find("...,\n") != std::string::npos);
}

TEST_CASE("tensors and shapes can be printed to a stream") {
  std::ostringstream out;
  out << Tensor::scalar(3.0, DType::float64) << ", " << Shape{2, 3} << " and " << Shape{};
  CHECK(out.str() == "3  () float64, (2, 3) and ()");
}
