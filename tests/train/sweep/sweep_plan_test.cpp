// SPDX-License-Identifier: BSD-3-Clause
#include "train/sweep/sweep_plan.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "train/base/error.h"

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

TEST_CASE("overrides with several values become axes, and overrides with one value are fixed") {
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

TEST_CASE("a range of one number is a single value, and an invalid range is kept as text") {
  CHECK(parse_sweep_overrides({"train.seed=3..3"}).fixed == Values{"train.seed=3"});
  CHECK(parse_sweep_overrides({"data.folder=../a"}).fixed == Values{"data.folder=../a"});
  CHECK(parse_sweep_overrides({"a.b=0.1..x"}).fixed == Values{"a.b=0.1..x"});
}

TEST_CASE("invalid values of a sweep are rejected") {
  CHECK(rejection({"model.dropout"}) == "command line: model.dropout: expected section.key=value");
  CHECK(rejection({"a.b=1", "a.b=2"}) == "command line: a.b=2: found the key a second time");
  CHECK(rejection({"a.b=1,,2"}) == "command line: a.b=1,,2: found an empty value");
  CHECK(rejection({"a.b=1,2,1"}) == "command line: a.b=1,2,1: found a value twice");
  CHECK(rejection({"a.b=0.1..0.3"}) ==
        "command line: a.b=0.1..0.3: found a range of fractions, expected a range of whole "
        "numbers");
  CHECK(rejection({"a.b=5..1"}) ==
        "command line: a.b=5..1: expected a range of 1 to 10000 numbers");
  CHECK(rejection({"a.b=1..10001"}) ==
        "command line: a.b=1..10001: expected a range of 1 to 10000 numbers");
  CHECK(rejection({"a.b=-9223372036854775808..9223372036854775807"}) != "");
  CHECK(rejection({"a.b=1..10000"}).empty());
}

TEST_CASE("the value of the last axis changes fastest in the list of combinations") {
  const auto all = all_combinations({{"a", {"1", "2"}}, {"b", {"x", "y", "z"}}});
  CHECK(all == std::vector<Values>{
                   {"1", "x"}, {"1", "y"}, {"1", "z"}, {"2", "x"}, {"2", "y"}, {"2", "z"}});
  const SweepAxis many{.key = "a", .values = Values(101, "1")};
  CHECK_THROWS_AS(all_combinations({many, many}), UsageError);
}

TEST_CASE("a sample has distinct, sorted combinations and depends only on the seed") {
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
  // A sample of 10,000 of 10,002 combinations has no duplicates.
  SweepAxis first = axis, second{.key = "b", .values = {"x", "y"}};
  first.values.resize(5'001);
  const auto most = sampled_combinations({first, second}, 10'000, 1);
  CHECK(std::set<Values>(most.begin(), most.end()).size() == 10'000);
  CHECK(std::ranges::is_sorted(most));
}

/// The number of settings and the last step of each stage, as "settings:step".
std::string stages(std::size_t runs, std::size_t factor, std::uint64_t steps,
                   std::uint64_t validate_every) {
  std::string text;
  for (const SweepStage& stage : sweep_stages(runs, factor, steps, validate_every)) {
    text += std::to_string(stage.settings) + ":" + std::to_string(stage.step) + " ";
  }
  return text;
}

TEST_CASE("each stage has fewer runs and more steps than the previous stage") {
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

}  // namespace
}  // namespace tapestry
