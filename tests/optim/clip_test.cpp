#include "optim/optimizer.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "autograd/error.h"
#include "tests/optim/leaves.h"
#include "tests/support/threads.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

}  // namespace

TEST_CASE("the global norm is that of all gradients together") {
  for (const DType dtype : dtypes) {
    const std::vector<NamedTensor> parameters{leaf("a", {2, 2}, {9, 9, 9, 9}, dtype),
                                              leaf("b", {1}, {9}, dtype)};
    set_gradient(parameters[0], {1, -2, 3, 1});
    set_gradient(parameters[1], {-1});
    CHECK(global_gradient_norm(parameters) == 4.0);
  }
}

TEST_CASE("parameters without a gradient count as 0 in the global norm") {
  const std::vector<NamedTensor> parameters{leaf("a", {2}, {9, 9}), leaf("b", {2}, {9, 9})};
  CHECK(global_gradient_norm(parameters) == 0.0);
  set_gradient(parameters[1], {3, 4});
  CHECK(global_gradient_norm(parameters) == 5.0);
  CHECK(global_gradient_norm({}) == 0.0);
}

TEST_CASE("the global norm includes every element of parameters of several pieces") {
  for (const DType dtype : dtypes) {
    const std::size_t n = 3 * kernels::elements_per_piece + 1;
    const std::vector<NamedTensor> parameters{leaf("a", {n}, std::vector<double>(n), dtype),
                                              leaf("b", {16}, std::vector<double>(16), dtype)};
    set_gradient(parameters[0], std::vector<double>(n, 0.5));
    set_gradient(parameters[1], std::vector<double>(16, 2.0));
    CHECK(global_gradient_norm(parameters) == std::sqrt(0.25 * static_cast<double>(n) + 64.0));
  }
}

TEST_CASE("the global norm counts each element of each piece once") {
  // A single element that is not 0, on either side of the borders of pieces and parameters.
  const std::size_t n = 2 * kernels::elements_per_piece + 1;
  const std::vector<NamedTensor> parameters{leaf("a", {n}, std::vector<double>(n)),
                                            leaf("b", {2}, {0, 0})};
  for (const std::size_t place : {std::size_t{0}, kernels::elements_per_piece - 1,
                                  kernels::elements_per_piece, n - 2, n - 1, n, n + 1}) {
    CAPTURE(place);
    std::vector<double> a(n, 0.0), b(2, 0.0);
    (place < n ? a[place] : b[place - n]) = 3.0;
    set_gradient(parameters[0], a);
    set_gradient(parameters[1], b);
    CHECK(global_gradient_norm(parameters) == 3.0);
  }
}

TEST_CASE("the global norm does not overflow in float32") {
  const NamedTensor parameter = leaf("a", {2}, {0, 0}, DType::float32);
  set_gradient(parameter, {3e30, 4e30});
  CHECK(global_gradient_norm({&parameter, 1}) == doctest::Approx(5e30).epsilon(1e-6));
}

TEST_CASE("one NaN or infinity makes the global norm NaN or infinite") {
  for (const DType dtype : dtypes) {
    const std::vector<NamedTensor> parameters{leaf("a", {19}, std::vector<double>(19), dtype),
                                              leaf("b", {1}, {0}, dtype)};
    set_gradient(parameters[1], {1});
    for (std::size_t i = 0; i < 19; ++i) {
      std::vector<double> gradient(19, 1.0);
      gradient[i] = -infinity;
      set_gradient(parameters[0], gradient);
      CHECK(global_gradient_norm(parameters) == infinity);
      gradient[i] = not_a_number;
      set_gradient(parameters[0], gradient);
      CHECK(std::isnan(global_gradient_norm(parameters)));
    }
  }
}

TEST_CASE("the global norm has the same bits on any number of threads") {
  const std::size_t n = 5 * kernels::elements_per_piece + 77;
  const std::vector<NamedTensor> parameters{leaf("a", {n}, uneven(n, 1)),
                                            leaf("b", {77}, uneven(77, 2))};
  set_gradient(parameters[0], uneven(n, 3));
  set_gradient(parameters[1], uneven(77, 4));
  CHECK(same_on_any_number_of_threads([&] { return global_gradient_norm(parameters); }));
}

TEST_CASE("gradients within the limit are not scaled, longer ones are scaled to the limit") {
  CHECK(clip_factor(0.0, 2.0) == 1.0);
  CHECK(clip_factor(1.9, 2.0) == 1.0);
  CHECK(clip_factor(2.0, 2.0) == 1.0);
  CHECK(clip_factor(8.0, 2.0) == 0.25);
}

TEST_CASE("a clipping limit of 0 does not clip") { CHECK(clip_factor(1e30, 0.0) == 1.0); }

TEST_CASE("the clip factor of a norm that is not finite is not finite") {
  CHECK(std::isnan(clip_factor(not_a_number, 1.0)));
  CHECK(clip_factor(infinity, 1.0) == 0.0);
}

TEST_CASE("a clipping limit has to be finite and not negative") {
  CHECK_THROWS_WITH_AS(clip_factor(1.0, -1.0),
                       "clip_factor: max_norm is -1, expected a finite number >= 0", ValueError);
  CHECK_THROWS_AS(clip_factor(1.0, not_a_number), ValueError);
  CHECK_THROWS_AS(clip_factor(1.0, infinity), ValueError);
}
