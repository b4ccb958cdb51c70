#include "train/report/findings.h"

#include <doctest/doctest.h>

#include <limits>

#include "tests/support/contains.h"

namespace tapestry {
namespace {

using test::contains;

/// A run that logs its training loss every 10 steps, and validates every 20.
RunHistory history_of(const std::vector<double>& training, const std::vector<double>& validation) {
  RunHistory history;
  history.curves.resize(2);
  for (NamedCurve& curve : history.curves) curve.name = "loss";
  history.curves[1].validation = true;
  for (const double loss : training) {
    Curve& curve = history.curves[0].curve;
    curve.steps.push_back(10 * (curve.steps.size() + 1));
    curve.values.push_back(loss);
  }
  for (const double loss : validation) {
    Curve& curve = history.curves[1].curve;
    curve.steps.push_back(20 * (curve.steps.size() + 1));
    curve.values.push_back(loss);
  }
  return history;
}

TEST_CASE("a validation loss that rises while the training loss falls is overfitting") {
  const auto found =
      findings(history_of({9, 8, 7, 6, 5, 4, 3, 2, 1, 0.5}, {5, 4, 4.1, 4.5, 5}), true);
  REQUIRE(found.size() == 1);
  CHECK(contains(found[0],
                 "overfits after step 40: the validation loss has risen from 4 to 5, while the "
                 "training loss has fallen from 6.5 to 0.75."));
  CHECK(contains(found[0], "train.patience"));
}

TEST_CASE(
    "no overfitting: too few validations, one bad one, a small rise, a rising training loss") {
  const std::vector<double> falls{9, 8, 7, 6, 5, 4, 3, 2, 1, 0.5};
  CHECK(findings(history_of(falls, {4, 5, 6}), true).empty());
  CHECK(findings(history_of(falls, {7, 6, 5, 4, 5}), true).empty());
  CHECK(findings(history_of(falls, {5, 4, 4.02, 4.03, 4.07}), true).empty());
  CHECK(findings(history_of({1, 1, 1, 1, 2, 2, 2, 2, 3, 3}, {5, 4, 4.1, 4.5, 5}), true).empty());
}

TEST_CASE("validations that are not finite are left out") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto found =
      findings(history_of({9, 8, 7, 6, 5, 4, 3, 2, 1, 0.5}, {nan, 4, 4.1, 4.5, 5}), true);
  REQUIRE(found.size() == 1);
  CHECK(contains(found[0], "overfits after step 40"));
}

TEST_CASE("a loss that still falls at the end of a finished run is named") {
  const RunHistory history = history_of({}, {8, 7, 6, 5, 4, 3.5, 3.2, 3});
  const auto found = findings(history, true);
  REQUIRE(found.size() == 1);
  CHECK(contains(found[0], "still falling at the end, from 3.5 at step 120 to 3."));
  CHECK(findings(history, false).empty());
  CHECK(findings(history_of({}, {8, 7, 6, 5, 4, 3.02, 3.01, 3}), true).empty());
  CHECK(findings(history_of({}, {8, 7, 6, 5, 2.9, 3.5, 3.2, 3}), true).size() == 0);
}

TEST_CASE(
    "more than a quarter of the time outside of training steps is named, over all processes") {
  RunHistory history;
  history.processes.resize(2);
  history.processes[0].seconds = 60;
  history.processes[0].step_seconds = 50;
  history.processes[1].seconds = 40;
  history.processes[1].step_seconds = 20;
  const auto found = findings(history, true);
  REQUIRE(found.size() == 1);
  CHECK(contains(found[0], "30 % of the time was spent on validations, saves and reports"));
  history.processes[1].step_seconds = 30;
  CHECK(findings(history, true).empty());
  history.processes.resize(1);
  history.processes[0].seconds = 0.5;
  history.processes[0].step_seconds = 0.1;
  CHECK(findings(history, true).empty());
}

}  // namespace
}  // namespace tapestry
