// SPDX-License-Identifier: BSD-3-Clause
#include "optim/adam.h"

#include <doctest/doctest.h>

#include <cmath>

#include "autograd/error.h"
#include "optim/sgd.h"
#include "tests/optim/leaves.h"
#include "tests/support/errors.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

/// The value of a parameter of this shape, initially 1, after one step with gradient g.
template <class Optimizer>
double after_one_step(const Shape& shape, double g, const OptimizerOptions& options) {
  const NamedTensor p = leaf("p", shape, {1});
  Optimizer optimizer({&p, 1}, options);
  set_gradient(p, {g});
  optimizer.step(0.1);
  return p.tensor.item();
}

}  // namespace

TEST_CASE("adam divides the corrected first moment by the root of the corrected second moment") {
  for (const DType dtype : dtypes) {
    const NamedTensor p = leaf("p", {1}, {1}, dtype);
    Adam adam({&p, 1}, round_numbers);
    const Tensor m = adam.state().at(0).tensor;
    const Tensor v = adam.state().at(1).tensor;

    set_gradient(p, {2});
    adam.step(0.1);  // corrected by 1 - 1/2 and 1 - 3/4: 2 and 4
    double expected = 1.0 - 0.1 * 2.0 / (2.0 + 1.0);
    check_values(m, {1.0}, tolerance(dtype));
    check_values(v, {1.0}, tolerance(dtype));
    check_values(p.tensor, {expected}, tolerance(dtype));

    set_gradient(p, {4});
    adam.step(0.1);  // corrected by 1 - 1/4 and 1 - 9/16: 10/3 and 76/7
    expected -= 0.1 * (10.0 / 3.0) / (std::sqrt(76.0 / 7.0) + 1.0);
    check_values(m, {2.5}, tolerance(dtype));
    check_values(v, {4.75}, tolerance(dtype));
    check_values(p.tensor, {expected}, tolerance(dtype));

    set_gradient(p, {-2});
    adam.step(0.1);  // corrected by 1 - 1/8 and 1 - 27/64: 2/7 and 292/37
    expected -= 0.1 * (2.0 / 7.0) / (std::sqrt(292.0 / 37.0) + 1.0);
    check_values(m, {0.25}, tolerance(dtype));
    check_values(v, {4.5625}, tolerance(dtype));
    check_values(p.tensor, {expected}, tolerance(dtype));
  }
}

TEST_CASE("adam computes the factors 1 - beta of float32 moments in float64") {
  const NamedTensor p = leaf("p", {1}, {1}, DType::float32);
  Adam adam({&p, 1}, {.beta1 = 0.9, .beta2 = 0.999});
  set_gradient(p, {1});
  adam.step(0.1);
  check_values(adam.state().at(0).tensor, {0.1}, 1e-8);
  check_values(adam.state().at(1).tensor, {0.001}, 1e-10);  // 1 - float(0.999) is 4.7e-8 more
}

TEST_CASE("adam adds its weight decay to the gradient, for parameters with any number of axes") {
  OptimizerOptions options = round_numbers;
  options.weight_decay = 0.5;  // h = 1.5 + 0.5 * 1
  const double expected = 1.0 - 0.1 * 2.0 / (2.0 + 1.0);
  CHECK(after_one_step<Adam>({1}, 1.5, options) == doctest::Approx(expected).epsilon(1e-14));
  CHECK(after_one_step<Adam>({1, 1}, 1.5, options) == doctest::Approx(expected).epsilon(1e-14));
}

TEST_CASE("the weight decay of adamw does not affect the moments and excludes biases and norms") {
  OptimizerOptions options = round_numbers;
  options.weight_decay = 0.5;
  const double undecayed = 1.0 - 0.1 * 2.0 / (2.0 + 1.0);
  const double decayed = undecayed - 0.1 * 0.5 * 1.0;
  CHECK(after_one_step<AdamW>({}, 2.0, options) == doctest::Approx(undecayed).epsilon(1e-14));
  CHECK(after_one_step<AdamW>({1}, 2.0, options) == doctest::Approx(undecayed).epsilon(1e-14));
  CHECK(after_one_step<AdamW>({1, 1}, 2.0, options) == doctest::Approx(decayed).epsilon(1e-14));
  CHECK(after_one_step<AdamW>({1, 1, 1}, 2.0, options) == doctest::Approx(decayed).epsilon(1e-14));
}

TEST_CASE("a decay that float32 would round away is added to the update first") {
  const NamedTensor p = leaf("p", {1, 1}, {1}, DType::float32);
  AdamW adam({&p, 1}, {.weight_decay = 0.5});
  set_gradient(p, {1});
  adam.step(5e-8);  // change 5e-8 and decay 2.5e-8; float32 has steps of 6e-8 below 1
  CHECK(p.tensor.item() == static_cast<double>(1.0F - 5.9604645e-8F));
}

TEST_CASE("NaN in a gradient affects only its own element") {
  const NamedTensor p = leaf("p", {19}, std::vector<double>(19, 1.0), DType::float32);
  Adam adam({&p, 1}, {});
  std::vector<double> gradient(19, 1.0);
  gradient[17] = std::nan("");
  set_gradient(p, gradient);
  adam.step(0.1);
  const std::vector<double> values = values_of(p.tensor);
  for (std::size_t i = 0; i < 19; ++i) CHECK(std::isnan(values[i]) == (i == 17));
}

TEST_CASE("an epsilon that is 0 in the precision of a parameter is rejected") {
  const NamedTensor narrow = leaf("narrow", {1}, {1}, DType::float32);
  const NamedTensor wide = leaf("wide", {1}, {1}, DType::float64);
  check_error<ValueError>("optimizer:|1e-60|0|float32|`narrow`|1e-45", [&] {
    Adam({&narrow, 1}, {.epsilon = 1e-60});
  });
  const NamedTensor both[] = {wide, narrow};
  check_error<ValueError>("the type of `narrow`", [&] { AdamW(both, {.epsilon = 1e-60}); });
  CHECK_THROWS_AS(Adam({&narrow, 1}, {.epsilon = 1e-46}), ValueError);
  CHECK_NOTHROW(Adam({&narrow, 1}, {.epsilon = 1e-45}));
  CHECK_NOTHROW(Adam({&wide, 1}, {.epsilon = 1e-60}));
}

TEST_CASE("sgd without momentum moves against the gradient and has no state") {
  for (const DType dtype : dtypes) {
    const NamedTensor p = leaf("p", {3}, {1, -1, 0}, dtype);
    Sgd sgd({&p, 1}, {});
    set_gradient(p, {2, 4, -1});
    sgd.step(0.1);
    check_values(p.tensor, {0.8, -1.4, 0.1}, tolerance(dtype));
    sgd.step(0.5);
    check_values(p.tensor, {-0.2, -3.4, 0.6}, tolerance(dtype));
    CHECK(sgd.state().empty());
  }
}

TEST_CASE("the velocity of sgd is momentum times itself plus gradient and decay") {
  for (const DType dtype : dtypes) {
    const NamedTensor p = leaf("p", {1, 1}, {1}, dtype);
    Sgd sgd({&p, 1}, {.momentum = 0.5, .weight_decay = 0.1});
    const Tensor v = sgd.state().at(0).tensor;
    set_gradient(p, {2});
    sgd.step(0.1);  // v = 2 + 0.1 * 1
    check_values(v, {2.1}, tolerance(dtype));
    check_values(p.tensor, {0.79}, tolerance(dtype));
    sgd.step(0.1);  // v = 0.5 * 2.1 + 2 + 0.1 * 0.79
    check_values(v, {3.129}, tolerance(dtype));
    check_values(p.tensor, {0.4771}, tolerance(dtype));
    sgd.step(0.1);  // v = 0.5 * 3.129 + 2 + 0.1 * 0.4771
    check_values(v, {3.61221}, tolerance(dtype));
    check_values(p.tensor, {0.115879}, tolerance(dtype));
  }
}
