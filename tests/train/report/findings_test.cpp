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

std::vector<std::string> find(const RunHistory& history, bool finished) {
  return findings(history, Config(), finished);
}

TEST_CASE("a validation loss that rises while the training loss falls is overfitting") {
  const auto found = find(history_of({9, 8, 7, 6, 5, 4, 3, 2, 1, 0.5}, {5, 4, 4.1, 4.5, 5}), true);
  REQUIRE(found.size() == 1);
  CHECK(contains(found[0],
                 "overfits after step 40: the validation loss has risen from 4 to 5, while the "
                 "training loss has fallen from 6.5 to 0.75."));
  CHECK(contains(found[0], "train.patience"));
}

TEST_CASE("no overfitting: too few validations, one bad one, a rising training loss") {
  const std::vector<double> falls{9, 8, 7, 6, 5, 4, 3, 2, 1, 0.5};
  CHECK(find(history_of(falls, {4, 5, 6}), true).empty());
  CHECK(find(history_of(falls, {7, 6, 5, 4, 5}), true).empty());
  CHECK(find(history_of({1, 1, 1, 1, 2, 2, 2, 2, 3, 3}, {5, 4, 4.1, 4.5, 5}), true).empty());
}

TEST_CASE("validations that are not finite are left out") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto found =
      find(history_of({9, 8, 7, 6, 5, 4, 3, 2, 1, 0.5}, {nan, 4, 4.1, 4.5, 5}), true);
  REQUIRE(found.size() == 1);
  CHECK(contains(found[0], "overfits after step 40"));
}

TEST_CASE("a lowest validation loss at the end is no sign of overfitting") {
  const auto found = find(history_of({9, 8, 7, 6, 5, 4}, {5, 4.5, 4.01, 4}), true);
  REQUIRE(found.size() == 1);
  CHECK(found[0] == "No sign of overfitting: the last validation loss, 4, is the lowest.");
}

TEST_CASE("a model whose validation loss stays while its training loss falls begins to overfit") {
  const std::vector<double> stays{5, 4, 4.02, 4.03, 4.07};
  const auto found = find(history_of({9, 8, 7, 6, 5, 4, 3, 2, 1, 0.5}, stays), true);
  REQUIRE(found.size() == 1);
  CHECK(contains(found[0],
                 "begins to overfit: the validation loss has not fallen since step 40 (4, at the "
                 "end 4.07), while the training loss has fallen from 6.5 to 0.75."));
  CHECK(find(history_of({9, 8, 7, 6.6, 7, 6, 7, 6, 6.7, 6.7}, stays), true).empty());
}

/// The findings but for the first, which is that there is no sign of overfitting.
std::vector<std::string> further(const RunHistory& history, bool finished) {
  std::vector<std::string> found = find(history, finished);
  REQUIRE(!found.empty());
  CHECK(contains(found[0], "No sign of overfitting"));
  found.erase(found.begin());
  return found;
}

TEST_CASE("a loss that still falls at the end of a finished run is named") {
  RunHistory history = history_of({}, {8, 7, 6, 5, 4, 3.5, 3.2, 3});
  const auto found = further(history, true);
  REQUIRE(found.size() == 1);
  CHECK(contains(found[0],
                 "still falling at the end, from 3.5 at step 120 to 3. More train.steps may"));
  CHECK(further(history, false).empty());
  CHECK(further(history_of({}, {8, 7, 6, 5, 4, 3.02, 3.01, 3}), true).empty());
  CHECK(find(history_of({}, {8, 7, 6, 5, 2.9, 3.5, 3.2, 3}), true).empty());
  history.curves.push_back({.name = "learning_rate", .curve = {{10, 20, 30}, {0.5, 1.0, 0.009}}});
  const auto decayed = further(history, true);
  REQUIRE(decayed.size() == 1);
  CHECK(contains(decayed[0], "over which the learning rate decays more slowly"));
}

TEST_CASE("a loss that has nearly vanished is not called still falling") {
  CHECK(further(history_of({}, {8, 1, 0.5, 0.1, 0.09, 0.07}), true).empty());
  CHECK(further(history_of({}, {8, 1, 0.5, 0.3, 0.2, 0.1}), true).size() == 1);
}

TEST_CASE("what made training slow is named: other programs, detection of anomalies") {
  RunHistory history;
  history.log = {
      {"10:00", "warning: threads: 2, but other programs keep 1.0 of 2 cores busy", true},
      {"11:00", "warning: threads: 2, but other programs keep 1.9 of 2 cores busy", true},
      {"12:00", "warning: something else", true},
      {"13:00", "other programs are named without a warning", false}};
  Config config;
  config.train.detect_anomaly = true;
  const auto found = findings(history, config, true);
  REQUIRE(found.size() == 2);
  CHECK(found[0] ==
        "Training was slowed down at 11:00: threads: 2, but other programs keep 1.9 of 2 cores "
        "busy");
  CHECK(contains(found[1], "train.detect_anomaly was on"));
}

TEST_CASE(
    "more than a quarter of the time outside of training steps is named, over all processes") {
  RunHistory history;
  history.processes.resize(2);
  history.processes[0].seconds = 60;
  history.processes[0].step_seconds = 50;
  history.processes[1].seconds = 40;
  history.processes[1].step_seconds = 20;
  const auto found = find(history, true);
  REQUIRE(found.size() == 1);
  CHECK(contains(found[0], "30 % of the time was spent on validations, saves and reports"));
  history.processes[1].step_seconds = 30;
  CHECK(find(history, true).empty());
  history.processes.resize(1);
  history.processes[0].seconds = 0.5;
  history.processes[0].step_seconds = 0.1;
  CHECK(find(history, true).empty());
}

}  // namespace
}  // namespace tapestry
