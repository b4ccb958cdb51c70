#include "optim/sgd.h"

#include <doctest/doctest.h>

#include "tests/optim/leaves.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

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

TEST_CASE("weight decay adds to the gradient of sgd, of biases too") {
  const NamedTensor p = leaf("p", {1}, {1});
  Sgd sgd({&p, 1}, {.weight_decay = 0.5});
  set_gradient(p, {2});
  sgd.step(0.1);
  check_values(p.tensor, {0.75});
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
