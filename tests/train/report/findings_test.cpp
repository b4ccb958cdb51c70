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

std::vector<std::string> texts(const std::vector<RunFinding>& findings) {
  std::vector<std::string> all;
  for (const RunFinding& finding : findings) all.push_back(finding.text);
  return all;
}

std::vector<std::string> find(const RunHistory& history, bool finished) {
  return texts(findings(history, Config(), finished));
}

TEST_CASE("a validation loss that rises while the training loss falls is overfitting") {
  const auto found = find(history_of({9, 8, 7, 6, 5, 4, 3, 2, 1, 0.5}, {5, 4, 4.1, 4.5, 5}), true);
  REQUIRE(found.size() == 1);
  CHECK(contains(found[0],
                 "overfits after step 40: the validation loss has risen from 4 to 5, while the "
                 "training loss has fallen from 6.5 to 0.75."));
  CHECK(contains(found[0], "train.patience"));
}

TEST_CASE("too few validations, one bad one and a rising training loss are no overfitting") {
  const std::vector<double> falls{9, 8, 7, 6, 5, 4, 3, 2, 1, 0.5};
  const auto answer = [](const std::vector<double>& training,
                         const std::vector<double>& validation) {
    const auto found = find(history_of(training, validation), true);
    REQUIRE(found.size() == 1);
    return found[0];
  };
  CHECK(contains(answer(falls, {4, 5, 6}),
                 "cannot be determined from 3 validations: at least 4 are needed"));
  CHECK(contains(answer(falls, {4}), "cannot be determined from 1 validation: "));
  CHECK(contains(answer(falls, {}), "cannot be determined without validations"));
  CHECK(find(history_of({}, {}), true).empty());
  CHECK(contains(answer(falls, {7, 6, 5, 4, 5}),
                 "cannot be determined yet: the validation loss was lowest at step 80 (4), and one "
                 "validation later it is 5."));
  CHECK(contains(answer({1, 1, 1, 1, 2, 2, 2, 2, 3, 3}, {5, 4, 4.1, 4.5, 5}),
                 "No sign of overfitting: neither the validation loss (lowest at step 40, 4, at "
                 "the end 5) nor the training loss (1 then, 3 at the end) has fallen much since."));
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

TEST_CASE("a loss in a finding has the digits that the page shows") {
  const auto last_loss = [](double loss) {
    const auto found = find(history_of({}, {4 * loss, 3 * loss, 2 * loss, loss}), false);
    REQUIRE(found.size() == 1);
    const std::string before = "the last validation loss, ", after = ", is the lowest.";
    const std::size_t begin = found[0].find(before) + before.size();
    return found[0].substr(begin, found[0].rfind(after) - begin);
  };
  CHECK(last_loss(1.1954996) == "1.196");  // of 1.19550, which the page has
  CHECK(last_loss(2.5) == "2.5");
  CHECK(last_loss(0.00012341) == "0.0001234");
  CHECK(last_loss(0.000012345) == "1.23e-5");
  CHECK(last_loss(12345.6) == "12,346");
  CHECK(last_loss(1234567) == "1.23e6");
}

TEST_CASE("a training loss far below the lowest validation loss is reported") {
  const auto found = find(history_of({9, 8, 7, 6, 2, 1, 0.5, 0.3}, {5, 4.5, 4.01, 4}), true);
  REQUIRE(found.size() == 1);
  CHECK(contains(found[0],
                 "The model memorizes training examples: since step 60 the training loss (now 0.4) "
                 "has been far below the validation loss (4), which is still at its lowest"));
  CHECK(contains(found[0],
                 "have not become worse. To lower the validation loss, try a larger model.dropout "
                 "(now 0.1), a smaller model or more training data."));
  CHECK_FALSE(contains(found[0], "train.patience"));
  CHECK(contains(find(history_of({9, 8, 7, 6, 5, 4, 0.5, 0.3}, {5, 4.5, 4.01, 4}), true).at(0),
                 "since step 80 the"));
  CHECK(contains(find(history_of({1, 1, 1, 1, 1, 1, 1, 1}, {5, 4.5, 4.01, 4}), true).at(0),
                 "since step 20 the"));
  CHECK(contains(find(history_of({9, 8, 7, 6, 5, 4, 3, 2.6}, {5, 4.5, 4.01, 4}), true).at(0),
                 "No sign of overfitting"));
}

TEST_CASE("a validation loss that is constant while the training loss falls begins overfitting") {
  const std::vector<double> stays{5, 4, 4.02, 4.03, 4.07};
  const auto found = find(history_of({9, 8, 7, 6, 5, 4, 3, 2, 1, 0.5}, stays), true);
  REQUIRE(found.size() == 1);
  CHECK(contains(found[0],
                 "begins to overfit: the validation loss has not fallen since step 40 (4, at the "
                 "end 4.07), while the training loss has fallen from 6.5 to 0.75."));
  CHECK(contains(find(history_of({9, 8, 7, 6.6, 7, 6, 7, 6, 6.7, 6.7}, stays), true).at(0),
                 "No sign of overfitting: neither"));
}

/// The findings but for the first, which is that there is no sign of overfitting.
std::vector<std::string> further(const RunHistory& history, bool finished) {
  std::vector<std::string> found = find(history, finished);
  REQUIRE(!found.empty());
  CHECK(contains(found[0], "No sign of overfitting"));
  found.erase(found.begin());
  return found;
}

TEST_CASE("a loss that still falls at the end of a finished run is reported") {
  RunHistory history = history_of({}, {8, 7, 6, 5, 4, 3.5, 3.2, 3});
  const auto found = further(history, true);
  REQUIRE(found.size() == 1);
  CHECK(contains(found[0],
                 "still falling at the end, from 3.5 at step 120 to 3. More train.steps may"));
  CHECK(further(history, false).empty());
  CHECK(further(history_of({}, {8, 7, 6, 5, 4, 3.02, 3.01, 3}), true).empty());
  CHECK(find(history_of({}, {8, 7, 6, 5, 2.9, 3.5, 3.2, 3}), true).empty());
  CHECK(further(history_of({}, {8, 7, 6, 5, 4, 3.5, 3.02, 3}), true).empty());  // levelled off
  history.curves.push_back({.name = "learning_rate", .curve = {{10, 20, 30}, {0.5, 1.0, 0.009}}});
  const auto decayed = further(history, true);
  REQUIRE(decayed.size() == 1);
  CHECK(contains(decayed[0], "over which the learning rate decays more slowly"));
}

TEST_CASE("a loss close to 0 is not reported as still falling") {
  CHECK(further(history_of({}, {8, 1, 0.5, 0.1, 0.09, 0.07}), true).empty());
  CHECK(further(history_of({}, {8, 1, 0.5, 0.3, 0.2, 0.1}), true).size() == 1);
}

TEST_CASE("causes of slow training are listed after findings of the curves") {
  RunHistory history = history_of({9, 8, 7, 6, 5, 4}, {5, 4.5, 4.01, 4});
  history.time_use = {{.seconds = 10}};
  history.time_use[0].parts[static_cast<std::size_t>(TimePart::validation)] = 4;
  const auto found = find(history, true);
  REQUIRE(found.size() == 2);
  CHECK(contains(found[0], "No sign of overfitting"));
  CHECK(contains(found[1], "Validation took 40 % of the time"));
}

TEST_CASE("the finding of overfitting has the change of validation accuracy since") {
  const std::vector<double> falls{9, 8, 7, 6, 5, 4, 3, 2, 1, 0.5};
  const auto finding = [&](const std::vector<double>& accuracy, const std::vector<double>& losses) {
    RunHistory history = history_of(falls, losses);
    NamedCurve curve{.name = "token_accuracy", .validation = true, .curve = {}};
    for (const double value : accuracy) {
      curve.curve.steps.push_back(20 * (curve.curve.steps.size() + 1));
      curve.curve.values.push_back(value);
    }
    history.curves.push_back(std::move(curve));
    return find(history, true).at(0);
  };
  const std::vector<double> rises{5, 4, 4.1, 4.5, 5}, stays{5, 4, 4.02, 4.03, 4.07};
  CHECK(contains(finding({0.5, 0.81, 0.82, 0.83, 0.84}, rises),
                 "But the validation accuracy still rises, from 81.0 % to 84.0 %: "));
  CHECK(contains(finding({0.5, 0.81, 0.82, 0.83, 0.84}, stays),
                 "begins to overfit: the validation loss has not fallen since step 40 (4, at the "
                 "end 4.07), while the training loss has fallen from 6.5 to 0.75. But the"));
  CHECK(contains(finding({0.5, 0.81, 0.8, 0.78, 0.75}, rises),
                 "The validation accuracy has fallen as well, from 81.0 % to 75.0 %. Try"));
  CHECK(contains(finding({0.5, 0.81, 0.8, 0.82, 0.811}, rises),
                 "The validation accuracy has stayed at 81.1 %."));
}

TEST_CASE("against memorizing, a larger dropout is no advice if it is large already") {
  RunHistory history = history_of({9, 8, 7, 6, 2, 1, 0.5, 0.3}, {5, 4.5, 4.01, 4});
  Config config;
  config.model.dropout = 0.5;
  const auto remedy = [&] { return findings(history, config, true).at(0).text; };
  CHECK(contains(remedy(),
                 "try a smaller model (model.dropout is 0.5 already) or more training data."));
  history.records.push_back({.step = 80, .training = TrainingRecord{.examples = 9, .epochs = 10}});
  CHECK(contains(remedy(),
                 "try more training data first, then a smaller model (model.dropout is 0.5 "
                 "already)."));
}

/// A run that overfits and has recorded its training set.
RunHistory overfitted(const TrainingRecord& training) {
  RunHistory history = history_of({9, 8, 7, 6, 5, 4, 3, 2, 1, 0.5}, {5, 4, 4.1, 4.5, 5});
  history.curves.push_back(
      {.name = "token_accuracy", .validation = true, .curve = {{80, 100}, {0.8, 0.75}}});
  history.records.push_back({.step = 80});  // of an earlier version
  history.records.push_back({.step = 100, .training = training});
  return history;
}

TEST_CASE("the finding of overfitting has the size of the training set and the accuracy on it") {
  const TrainingRecord training{.examples = 1200,
                                .tokens = 34567,
                                .epochs = 12,
                                .sample = {.examples = 256, .accuracy = 0.999}};
  const auto text = [](const TrainingRecord& record, double dropout) {
    Config config;
    config.model.dropout = dropout;
    return findings(overfitted(record), config, true).at(0).text;
  };
  CHECK(contains(text(training, 0.1),
                 "from 6.5 to 0.75. The training set has 1,200 pairs (34,567 tokens); each has "
                 "been read 12 times. The accuracy is 99.9 % on training examples and 75.0 % on "
                 "the validation set. Try more training data first, then a larger model.dropout "
                 "(now 0.1) or a smaller model; train.patience"));
  TrainingRecord other = training;
  other.tokens = 0;
  other.epochs = 1;
  other.sample.examples = 0;
  CHECK(contains(text(other, 0.3),
                 "The training set has 1,200 pairs; each has been read once. Try a smaller model "
                 "(model.dropout is 0.3 already) or more training data; "));
  other.epochs = 0;
  CHECK(contains(text(other, 0.2), "1,200 pairs; not all of them have been read yet."));
  RunHistory without = overfitted(training);
  without.records.pop_back();
  CHECK_FALSE(contains(find(without, true).at(0), "training set"));
}

TEST_CASE("findings name the section that shows more") {
  RunHistory history = history_of({9, 8, 7, 6, 5, 4}, {5, 4.5, 4.01, 4});
  history.time_use = {{.seconds = 10}};
  history.time_use[0].parts[static_cast<std::size_t>(TimePart::validation)] = 4;
  const auto found = findings(history, Config(), true, "Errors: many.");
  REQUIRE(found.size() == 3);
  CHECK(found[0].section == "Curves");
  CHECK(found[1].text == "Errors: many.");
  CHECK(found[1].section == "Accuracy");
  CHECK(found[2].section == "Speed");
}

TEST_CASE("the finding of errors has the share of exact outputs of the last validation") {
  RunHistory history;
  history.curves.push_back(
      {.name = "exact_match", .validation = true, .curve = {{10, 20}, {0.5, 0.25}}});
  const std::string exact =
      "Exact outputs: 25.0 % of the sequences that the last validation "
      "decoded.";
  CHECK(texts(findings(history, Config(), true, "Errors: many.")) ==
        std::vector<std::string>{"Errors: many. " + exact});
  const auto found = findings(history, Config(), true);
  REQUIRE(found.size() == 1);
  CHECK(found[0].text == exact);
  CHECK(found[0].section == "Curves");
}

}  // namespace
}  // namespace tapestry
