// SPDX-License-Identifier: BSD-3-Clause
#include "train/sweep/sweep_plan.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "train/base/error.h"
#include "train/checkpoint/metrics.h"
#include "train/report/curve.h"
#include "train/sweep/sweep_results.h"

namespace tapestry {
namespace {

using Values = std::vector<std::string>;

std::string rejection(const Values& overrides) {
  try {
    parse_sweep_overrides(overrides);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("overrides with several values are axes, the others are fixed") {
  const SweepOverrides parsed = parse_sweep_overrides(
      {"model.dropout=0.1", "schedule.learning_rate=1e-4,3e-4", "train.seed=-1..2",
       "data.train_source=[a, b],[c]", "data.train_text='x,y'", "train.run_dir="});
  CHECK(parsed.fixed == Values{"model.dropout=0.1", "data.train_text='x,y'", "train.run_dir="});
  REQUIRE(parsed.axes.size() == 3);
  CHECK(parsed.axes[0].key == "schedule.learning_rate");
  CHECK(parsed.axes[0].values == Values{"1e-4", "3e-4"});
  CHECK(parsed.axes[1].values == Values{"-1", "0", "1", "2"});
  CHECK(parsed.axes[2].values == Values{"[a, b]", "[c]"});
}

TEST_CASE("a range of one number is a single value, and an invalid range is a text") {
  CHECK(parse_sweep_overrides({"train.seed=3..3"}).fixed == Values{"train.seed=3"});
  CHECK(parse_sweep_overrides({"data.folder=../a"}).fixed == Values{"data.folder=../a"});
  CHECK(parse_sweep_overrides({"a.b=0.1..0.3"}).fixed == Values{"a.b=0.1..0.3"});
}

TEST_CASE("mistakes in the values of a sweep are rejected") {
  CHECK(rejection({"model.dropout"}) == "command line: model.dropout: expected section.key=value");
  CHECK(rejection({"a.b=1", "a.b=2"}) == "command line: a.b=2: found the key a second time");
  CHECK(rejection({"a.b=1,,2"}) == "command line: a.b=1,,2: found an empty value");
  CHECK(rejection({"a.b=1,2,1"}) == "command line: a.b=1,2,1: found a value twice");
  CHECK(rejection({"a.b=5..1"}) ==
        "command line: a.b=5..1: expected a range of 1 to 10000 numbers");
  CHECK(rejection({"a.b=1..10001"}) ==
        "command line: a.b=1..10001: expected a range of 1 to 10000 numbers");
  CHECK(rejection({"a.b=-9223372036854775808..9223372036854775807"}) != "");
  CHECK(rejection({"a.b=1..10000"}).empty());
}

TEST_CASE("combinations have the values of the last axis next to each other") {
  const auto all = all_combinations({{"a", {"1", "2"}}, {"b", {"x", "y", "z"}}});
  CHECK(all == std::vector<Values>{
                   {"1", "x"}, {"1", "y"}, {"1", "z"}, {"2", "x"}, {"2", "y"}, {"2", "z"}});
  const SweepAxis many{.key = "a", .values = Values(101, "1")};
  CHECK_THROWS_AS(all_combinations({many, many}), UsageError);
}

TEST_CASE("a sample has different combinations in their order, the same for the same seed") {
  SweepAxis axis{.key = "a", .values = {}};
  for (int i = 0; i < 50; ++i) axis.values.push_back(std::to_string(1000 + i));
  const auto sample = sampled_combinations({axis}, 10, 1);
  CHECK(sample.size() == 10);
  CHECK(std::set<Values>(sample.begin(), sample.end()).size() == 10);
  CHECK(std::ranges::is_sorted(sample));
  CHECK(sampled_combinations({axis}, 10, 1) == sample);
  CHECK(sampled_combinations({axis}, 10, 2) != sample);
  CHECK(sampled_combinations({axis}, 70, 1) == all_combinations({axis}));
}

TEST_CASE("a sample of any number of combinations can be drawn") {
  SweepAxis axis{.key = "a", .values = {}};
  for (int i = 0; i < 10'000; ++i) axis.values.push_back(std::to_string(10'000 + i));
  const std::vector<SweepAxis> axes(5, axis);  // 10^20 combinations
  const auto sample = sampled_combinations(axes, 100, 1);
  CHECK(sample.size() == 100);
  CHECK(std::ranges::is_sorted(sample));
  CHECK(sampled_combinations(axes, 100, 1) == sample);
  CHECK(sampled_combinations(axes, 100, 2) != sample);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    std::set<std::string> values;
    for (const Values& combination : sample) values.insert(combination.at(i));
    CAPTURE(i);
    CHECK(values.size() > 90);
    CHECK(*values.begin() < "11000");
    CHECK(*values.rbegin() > "19000");
  }
  // Nearly all of a grid: every combination is drawn once.
  SweepAxis first = axis, second{.key = "b", .values = {"x", "y"}};
  first.values.resize(5'001);
  const auto most = sampled_combinations({first, second}, 10'000, 1);
  CHECK(std::set<Values>(most.begin(), most.end()).size() == 10'000);
  CHECK(std::ranges::is_sorted(most));
}

/// "runs:step" of each stage.
std::string stages(std::size_t runs, std::size_t factor, std::uint64_t steps,
                   std::uint64_t validate_every) {
  std::string text;
  for (const SweepStage& stage : sweep_stages(runs, factor, steps, validate_every)) {
    text += std::to_string(stage.runs) + ":" + std::to_string(stage.step) + " ";
  }
  return text;
}

TEST_CASE("each stage has fewer runs and more steps than the stage before") {
  CHECK(stages(9, 3, 900, 100) == "9:100 3:300 1:900 ");
  CHECK(stages(10, 3, 900, 50) == "10:50 4:100 2:300 1:900 ");
  CHECK(stages(8, 2, 1000, 100) == "8:200 4:300 2:500 1:1000 ");
  CHECK(stages(5, 0, 900, 100) == "5:900 ");
  CHECK(stages(1, 3, 900, 100) == "1:900 ");
  // Stages that would end at the same validation are merged.
  CHECK(stages(9, 3, 900, 900) == "9:900 ");
  CHECK(stages(9, 3, 900, 400) == "9:400 3:900 ");
  CHECK(stages(100, 2, 4, 1) == "100:1 50:2 25:4 ");
}

// ---- Results

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
  const std::vector<std::optional<BestValue>> values = {BestValue{3}, std::nullopt, BestValue{1},
                                                        BestValue{2}, BestValue{1}};
  CHECK(best_runs(values, "loss", 2) == std::vector<std::size_t>{2, 4});
  CHECK(best_runs(values, "loss", 1) == std::vector<std::size_t>{2});
  CHECK(best_runs(values, "bleu", 2) == std::vector<std::size_t>{0, 3});
  CHECK(best_runs(values, "loss", 9).size() == 5);
}

SweepResult result(SweepValues values, std::optional<double> best,
                   const std::string& state = "finished") {
  SweepResult result{.run = "run-01", .values = std::move(values), .state = state, .steps = 20};
  if (best) result.best = BestValue{.value = *best, .step = 10};
  return result;
}

TEST_CASE("finished runs that differ in their seeds are summarized together") {
  const std::vector<SweepAxis> axes = {{"train.seed", {"1", "2"}}, {"a", {"x", "y,z", "failing"}}};
  const std::vector<SweepResult> results = {result({"1", "x"}, 1.0),
                                            result({"1", "y,z"}, 5.0),
                                            result({"1", "failing"}, 3.0, "failed"),
                                            result({"2", "x"}, 2.0),
                                            result({"2", "y,z"}, 9.0, "abandoned"),
                                            result({"2", "failing"}, std::nullopt)};
  const auto seeds = summarize_seeds(axes, results, "loss");
  REQUIRE(seeds.has_value());
  CHECK(seeds->text ==
        "a=x  2 runs: loss 1.5000, deviation 0.7071, 95 % interval -4.8531 to 7.8531\n"
        "a=y,z  1 run: loss 5.0000\n"
        "a=failing  no finished run\n");
  const double half = student_t_975(1) * std::sqrt(0.5) / std::sqrt(2.0);
  CHECK(half == doctest::Approx(12.706205 * 0.5).epsilon(1e-5));
  CHECK(seeds->csv ==
        fmt::format("a,runs,mean,deviation,low,high\nx,2,1.5,{:.17g},{:.17g},{:.17g}\n"
                    "\"y,z\",1,5,,,\nfailing,0,,,,\n",
                    std::sqrt(0.5), 1.5 - half, 1.5 + half));
  CHECK_FALSE(summarize_seeds({axes[1]}, results, "loss").has_value());
}

TEST_CASE("the table has a row for each run, with quoted fields where necessary") {
  const std::vector<SweepAxis> axes = {{"data.train_text", {"a,b", "c\"d"}}};
  const SweepResult failed = result({"c\"d"}, std::nullopt, "failed");
  CHECK(sweep_csv(axes, {result({"a,b"}, 0.1), failed}, "loss") ==
        "run,data.train_text,state,steps,loss,best_step\n"
        "run-01,\"a,b\",finished,20,0.10000000000000001,10\n"
        "run-01,\"c\"\"d\",failed,20,,\n");
}

}  // namespace
}  // namespace tapestry
