#include <doctest/doctest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "optim/make_optimizer.h"
#include "tests/optim/leaves.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::testing;

namespace {

/// The line after the one that is `name`, or a later one, of a file of tests/golden/optim.py.
std::vector<double> golden_values(const std::string& name, int lines_below) {
  std::ifstream in(TAPESTRY_SOURCE_DIR "/tests/golden/optim.txt");
  REQUIRE(in);
  std::string line;
  while (line != name) REQUIRE(std::getline(in, line));
  for (int i = 0; i < lines_below; ++i) REQUIRE(std::getline(in, line));
  std::istringstream numbers(line);
  std::vector<double> values;
  for (double number; numbers >> number;) values.push_back(number);
  return values;
}

/// Gradient of 0.5 * curvature * (x - 0.3)^2.
void set_gradient_of_quadratic(const NamedTensor& x, const std::vector<double>& curvature) {
  std::vector<double> gradient = values_of(x.tensor);
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    gradient[i] = curvature[i] * (gradient[i] - 0.3);
  }
  set_gradient(x, gradient);
}

/// Runs what tests/golden/optim.py runs.
void check_against_golden(const std::string& name, const OptimizerOptions& options) {
  CAPTURE(name);
  const std::vector<NamedTensor> x{leaf("weight", {2, 3}, {1.0, -2.0, 0.5, 3.0, -0.25, 0.0}),
                                   leaf("bias", {2}, {0.75, -1.5})};
  const auto optimizer = make_optimizer(options, x);
  for (int step = 0; step < 20; ++step) {
    set_gradient_of_quadratic(x[0], {1.0, 0.1, 2.0, 0.5, 3.0, 0.0});
    set_gradient_of_quadratic(x[1], {0.2, 1.5});
    optimizer->step(0.05);
  }
  check_values(x[0].tensor, golden_values(name, 1), 1e-13);
  check_values(x[1].tensor, golden_values(name, 2), 1e-13);
}

}  // namespace

TEST_CASE("twenty steps of every optimiser end where PyTorch's do") {
  using enum OptimizerKind;
  check_against_golden("sgd", {.kind = sgd, .weight_decay = 0.1});
  check_against_golden("sgd_momentum", {.kind = sgd, .momentum = 0.9, .weight_decay = 0.1});
  check_against_golden("adam", {.kind = adam});
  check_against_golden("adam_decay", {.kind = adam, .weight_decay = 0.1});
  check_against_golden("adamw", {.kind = adamw, .weight_decay = 0.1});
}
