// SPDX-License-Identifier: BSD-3-Clause
#include "train/sweep/sweep_results.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "train/checkpoint/metrics.h"
#include "train/report/curve.h"

namespace tapestry {
namespace {

std::string table(const std::vector<double>& losses) {
  MetricsTable metrics;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    metrics.add_validation(10 * (i + 1), 1, {.sentences = 1, .tokens = 1, .loss = losses[i]});
  }
  return metrics.csv();
}

TEST_CASE("the best value up to a step comes from the first validation that reached it") {
  const std::string csv = table({3, 1, NAN, 1, 0.5});
  CHECK(best_value(csv, "loss", 40)->value == 1);
  CHECK(best_value(csv, "loss", 40)->step == 20);
  CHECK(best_value(csv, "loss", 50)->step == 50);
  CHECK(best_value(csv, "loss", 10)->value == 3);
  CHECK_FALSE(best_value(csv, "loss", 9).has_value());
  CHECK_FALSE(best_value(table({NAN}), "loss", 100).has_value());
}

/// Settings with one run each, whose best values are `means`.
std::vector<Setting> settings_of(const std::vector<std::optional<double>>& means) {
  std::vector<Setting> settings;
  for (const auto& mean : means) {
    Setting& setting = settings.emplace_back();
    if (mean) setting.bests.push_back({.value = *mean});
  }
  return settings;
}

TEST_CASE(
    "the best settings are chosen by the metric, and settings without a value are the worst") {
  const std::vector<Setting> settings = settings_of({3, std::nullopt, 1, 2, 1});
  CHECK(best_settings(settings, "loss", 2) == std::vector<std::size_t>{2, 4});
  CHECK(best_settings(settings, "loss", 1) == std::vector<std::size_t>{2});
  CHECK(best_settings(settings, "bleu", 2) == std::vector<std::size_t>{0, 3});
  CHECK(best_settings(settings, "loss", 9).size() == 5);
}

SweepResult result(SweepValues values, std::optional<double> best,
                   const std::string& state = "finished") {
  SweepResult result{.name = "run-01", .values = std::move(values), .state = state, .steps = 20};
  if (best) result.best = BestValue{.value = *best, .step = 10};
  return result;
}

TEST_CASE("finished runs that differ in their seeds are summarized together") {
  const std::vector<SweepAxis> axes = {{"train.seed", {"1", "2"}}, {"a", {"x", "y,z", "failing"}}};
  const std::vector<Setting> settings = group_by_setting(
      axes, {result({"1", "x"}, 1.0), result({"1", "y,z"}, 5.0),
             result({"1", "failing"}, 3.0, "failed"), result({"2", "x"}, 2.0),
             result({"2", "y,z"}, 9.0, "abandoned"), result({"2", "failing"}, std::nullopt)});
  const auto seeds = summarize_seeds(axes, settings, "loss");
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
  CHECK_FALSE(summarize_seeds({axes[1]}, settings, "loss").has_value());
}

TEST_CASE("the best setting has the best mean over seeds, not the best seed") {
  const std::vector<SweepAxis> axes = {{"a", {"x", "y"}}, {"train.seed", {"1", "2"}}};
  const auto settings =
      group_by_setting(axes, {result({"x", "1"}, 1.0), result({"y", "1"}, 2.0),
                              result({"x", "2"}, 9.0), result({"y", "2"}, std::nullopt)});
  REQUIRE(settings.size() == 2);
  CHECK(settings[0].runs == std::vector<std::size_t>{0, 2});
  CHECK(settings[1].runs == std::vector<std::size_t>{1, 3});
  CHECK(overrides_of(axes, settings[1]) == std::vector<std::string>{"a=y"});
  CHECK(settings[0].mean() == 5.0);
  CHECK(settings[1].mean() == 2.0);  // only one seed has a value
  CHECK(best_settings(settings, "loss", 1) == std::vector<std::size_t>{1});
  CHECK_FALSE(Setting().mean().has_value());
  // Without seeds, each run is a setting.
  const auto single = group_by_setting({axes[0]}, {result({"x"}, 1.0), result({"y"}, 2.0)});
  REQUIRE(single.size() == 2);
  CHECK(single[1].runs == std::vector<std::size_t>{1});
}

TEST_CASE("a table contains no formulas, and numbers remain numbers") {
  const std::vector<SweepAxis> axes = {{"a", {"=1+1", "@x"}}};
  for (const std::string formula : {"=1+1.fr", "@x", "-a", "+cmd", "\tx", "-1-1"}) {
    CAPTURE(formula);
    const std::string row = "\nrun-01,'" + formula + ",finished,";
    CHECK(sweep_csv(axes, {result({formula}, 0.1)}, "loss").find(row) != std::string::npos);
  }
  CHECK(sweep_csv(axes, {result({"=a,b"}, 0.1)}, "loss").find(",\"'=a,b\",") != std::string::npos);
  for (const std::string number : {"-1", "-1e-3", "-0.5"}) {
    const std::string row = "\nrun-01," + number + ",finished,";
    CHECK(sweep_csv(axes, {result({number}, 0.1)}, "loss").find(row) != std::string::npos);
  }
  const auto seeds =
      summarize_seeds({{"a", {"=1", "x"}}, {"train.seed", {"1", "2"}}},
                      {{.values = {"=1"}, .runs = {0}, .bests = {{.value = 1.0}}}}, "loss");
  CHECK(seeds->csv.find("\n'=1,1,1,,,\n") != std::string::npos);
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
