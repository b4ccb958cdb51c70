#include "train/sweep/sweep_results.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "train/metrics.h"
#include "train/report/curve.h"

namespace tapestry {
namespace {

using doctest::Approx;

std::string table(const std::vector<double>& losses) {
  MetricsTable metrics;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    metrics.add_validation(10 * (i + 1), 1, {.sentences = 1, .tokens = 1, .loss = losses[i]});
  }
  return metrics.csv();
}

TEST_CASE("the best value is the first best one of the validations up to a step") {
  const std::string csv = table({3, 1, NAN, 1, 0.5});
  CHECK(best_value(csv, "loss", 40)->value == 1);
  CHECK(best_value(csv, "loss", 40)->step == 20);
  CHECK(best_value(csv, "loss", 50)->step == 50);
  CHECK(best_value(csv, "loss", 10)->value == 3);
  CHECK_FALSE(best_value(csv, "loss", 9).has_value());
  CHECK_FALSE(best_value(table({NAN}), "loss", 100).has_value());
}

TEST_CASE("the best runs are chosen by the metric, and runs without a value are the worst") {
  const std::vector<std::optional<double>> values = {3, std::nullopt, 1, 2, 1};
  CHECK(best_runs(values, "loss", 2) == std::vector<std::size_t>{2, 4});
  CHECK(best_runs(values, "loss", 1) == std::vector<std::size_t>{2});
  CHECK(best_runs(values, "bleu", 2) == std::vector<std::size_t>{0, 3});
  CHECK(best_runs(values, "loss", 9).size() == 5);
}

SweepResult result(std::vector<std::string> values, std::optional<double> best) {
  return {.run = "run-01",
          .values = std::move(values),
          .end = SweepEnd::finished,
          .steps = 20,
          .best = best,
          .best_step = 10};
}

TEST_CASE("runs that differ in their seeds are summarized together") {
  const std::vector<SweepAxis> axes = {{"train.seed", {"1", "2"}}, {"model.dropout", {"0", "0.1"}}};
  std::vector<SweepResult> results = {result({"1", "0"}, 1.0), result({"1", "0.1"}, 5.0),
                                      result({"2", "0"}, 2.0), result({"2", "0.1"}, 9.0)};
  results[3].end = SweepEnd::abandoned;
  const auto summaries = summarize_seeds(axes, results);
  REQUIRE(summaries.size() == 2);
  CHECK(summaries[0].values == std::vector<std::string>{"0"});
  CHECK(summaries[0].runs == 2);
  CHECK(summaries[0].mean == 1.5);
  CHECK(summaries[0].deviation.value() == Approx(std::sqrt(0.5)));
  CHECK(summaries[0].half_width.value() == Approx(12.706205 * 0.5).epsilon(1e-5));
  CHECK(summaries[1].runs == 1);
  CHECK(summaries[1].mean == 5.0);
  CHECK_FALSE(summaries[1].deviation.has_value());
  CHECK_FALSE(summaries[1].half_width.has_value());
  CHECK(seed_summary_line(axes, summaries[0], "loss") ==
        "model.dropout=0  2 runs: loss 1.5000, deviation 0.7071, 95 % interval -4.8531 to 7.8531");
  CHECK(seed_summary_line(axes, summaries[1], "loss") == "model.dropout=0.1  1 run: loss 5.0000");
  CHECK(summarize_seeds({axes[1]}, results).empty());
}

TEST_CASE("seeds without a finished run have no mean") {
  const std::vector<SweepAxis> axes = {{"model.dropout", {"0", "0.1"}}, {"train.seed", {"1", "2"}}};
  std::vector<SweepResult> results = {result({"0", "1"}, 1.0), result({"0.1", "1"}, 5.0)};
  results[1].end = SweepEnd::abandoned;
  const auto summaries = summarize_seeds(axes, results);
  REQUIRE(summaries.size() == 2);
  CHECK(summaries[1].runs == 0);
  CHECK_FALSE(summaries[1].mean.has_value());
  CHECK(seed_summary_line(axes, summaries[1], "loss") == "model.dropout=0.1  no finished run");
}

TEST_CASE("the table has a row for each run, with quoted fields where necessary") {
  const std::vector<SweepAxis> axes = {{"data.train_text", {"a,b", "c\"d"}}};
  SweepResult failed = result({"c\"d"}, std::nullopt);
  failed.end = SweepEnd::failed;
  CHECK(sweep_csv(axes, {result({"a,b"}, 0.1), failed}, "loss") ==
        "run,data.train_text,state,steps,loss,best_step\n"
        "run-01,\"a,b\",finished,20,0.10000000000000001,10\n"
        "run-01,\"c\"\"d\",failed,20,,\n");
}

TEST_CASE("the table of groups has mean, deviation and interval, as far as they are known") {
  const std::vector<SweepAxis> axes = {{"a", {"x", "y,z"}}, {"train.seed", {"1", "2"}}};
  const std::vector<SweepResult> results = {result({"x", "1"}, 1), result({"x", "2"}, 2),
                                            result({"y,z", "1"}, 3),
                                            result({"y,z", "2"}, std::nullopt)};
  const std::string csv = seed_summaries_csv(axes, summarize_seeds(axes, results));
  const double half = student_t_975(1) * std::sqrt(0.5) / std::sqrt(2.0);
  CHECK(csv == fmt::format("a,runs,mean,deviation,low,high\nx,2,1.5,{:.17g},{:.17g},{:.17g}\n"
                           "\"y,z\",1,3,,,\n",
                           std::sqrt(0.5), 1.5 - half, 1.5 + half));
}

}  // namespace
}  // namespace tapestry
