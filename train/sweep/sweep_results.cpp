// SPDX-License-Identifier: BSD-3-Clause
#include "train/sweep/sweep_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <utility>

#include "data/io/utf8.h"
#include "train/checkpoint/metrics.h"
#include "train/report/curve.h"

namespace tapestry {
namespace {

std::string csv_line(const std::vector<std::string>& fields) {
  std::string line;
  for (const std::string& field : fields) {
    if (!line.empty()) line += ',';
    if (field.find_first_of(",\"\r\n") == field.npos) {
      line += field;
      continue;
    }
    line += '"';
    for (const char c : field) line += c == '"' ? "\"\"" : std::string(1, c);
    line += '"';
  }
  return line + '\n';
}

std::string csv_number(double value) { return fmt::format("{:.17g}", value); }

/// The mean of values, their sample standard deviation, and the 95 % confidence interval of the
/// mean. NaN without values; with one value, only the mean is not NaN.
struct MeanInterval {
  double mean = NAN, deviation = NAN, low = NAN, high = NAN;
};

MeanInterval student_interval(const std::vector<double>& values) {
  const auto n = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  if (values.size() < 2) return {.mean = mean};
  double squares = 0.0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  const double deviation = std::sqrt(squares / (n - 1));
  const double half_width = student_t_975(values.size() - 1) * deviation / std::sqrt(n);
  return {
      .mean = mean, .deviation = deviation, .low = mean - half_width, .high = mean + half_width};
}

/// The finished runs that differ only in train.seed.
struct SeedGroup {
  SweepValues values;         ///< values of the other axes
  std::vector<double> bests;  ///< best value of each run
};

/// Groups the runs. Groups are in the order of their first runs.
///
/// seed_axis  index of train.seed in the values of a run
std::vector<SeedGroup> group_by_seed(const std::vector<SweepResult>& results,
                                     std::ptrdiff_t seed_axis) {
  std::vector<SeedGroup> groups;
  for (const SweepResult& result : results) {
    SweepValues values = result.values;
    values.erase(values.begin() + seed_axis);
    auto group = std::ranges::find(groups, values, &SeedGroup::values);
    if (group == groups.end()) {
      group = groups.insert(group, SeedGroup{.values = std::move(values), .bests = {}});
    }
    if (result.best && result.state == "finished") group->bests.push_back(result.best->value);
  }
  return groups;
}

/// "3 runs: loss 0.1200, deviation 0.0100, 95 % interval 0.0952 to 0.1448"
std::string mean_in_words(const std::vector<double>& bests, const std::string& metric) {
  const auto [mean, deviation, low, high] = student_interval(bests);
  if (bests.empty()) return "no finished run";
  if (bests.size() == 1) return fmt::format("1 run: {} {:.4f}", metric, mean);
  return fmt::format("{} runs: {} {:.4f}, deviation {:.4f}, 95 % interval {:.4f} to {:.4f}",
                     bests.size(), metric, mean, deviation, low, high);
}

/// Formats the columns runs, mean, deviation, low and high.
std::vector<std::string> mean_fields(const std::vector<double>& bests) {
  const auto [mean, deviation, low, high] = student_interval(bests);
  const auto field = [&](double value, std::size_t min_runs) {
    return bests.size() >= min_runs ? csv_number(value) : "";
  };
  return {fmt::to_string(bests.size()), field(mean, 1), field(deviation, 2), field(low, 2),
          field(high, 2)};
}

}  // namespace

std::optional<BestValue> best_value(const std::string& metrics_csv, const std::string& metric,
                                    std::uint64_t last_step) {
  std::optional<BestValue> best;
  for (const auto& [step, value] : validation_values(metrics_csv, metric)) {
    if (step > last_step || !std::isfinite(value)) continue;
    if (!best || is_better(metric, value, best->value)) best = {.value = value, .step = step};
  }
  return best;
}

std::vector<std::size_t> best_runs(const std::vector<std::optional<BestValue>>& values,
                                   const std::string& metric, std::size_t count) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    if (!values[a] || !values[b]) return values[a].has_value() && !values[b].has_value();
    return is_better(metric, values[a]->value, values[b]->value);
  });
  order.resize(std::min(count, order.size()));
  std::ranges::sort(order);
  return order;
}

std::string sweep_csv(const std::vector<SweepAxis>& axes, const std::vector<SweepResult>& results,
                      const std::string& metric) {
  std::vector<std::string> heading{"run"};
  for (const SweepAxis& axis : axes) heading.push_back(axis.key);
  heading.insert(heading.end(), {"state", "steps", metric, "best_step"});
  std::string csv = csv_line(heading);
  for (const SweepResult& result : results) {
    std::vector<std::string> fields{result.run};
    fields.insert(fields.end(), result.values.begin(), result.values.end());
    fields.push_back(result.state);
    fields.push_back(fmt::to_string(result.steps));
    fields.push_back(result.best ? csv_number(result.best->value) : "");
    fields.push_back(result.best ? fmt::to_string(result.best->step) : "");
    csv += csv_line(fields);
  }
  return csv;
}

std::optional<SeedTable> summarize_seeds(const std::vector<SweepAxis>& axes,
                                         const std::vector<SweepResult>& results,
                                         const std::string& metric) {
  const auto seed = std::ranges::find(axes, "train.seed", &SweepAxis::key);
  if (seed == axes.end()) return std::nullopt;
  const std::ptrdiff_t seed_axis = seed - axes.begin();
  std::vector<std::string> keys;
  for (const SweepAxis& axis : axes) keys.push_back(axis.key);
  keys.erase(keys.begin() + seed_axis);
  std::vector<std::string> heading = keys;
  heading.insert(heading.end(), {"runs", "mean", "deviation", "low", "high"});
  SeedTable table{.text = "", .csv = csv_line(heading)};
  for (const SeedGroup& group : group_by_seed(results, seed_axis)) {
    for (std::size_t i = 0; i < keys.size(); ++i) {
      table.text += escaped(fmt::format("{}={}  ", keys[i], group.values[i]));
    }
    table.text += mean_in_words(group.bests, metric) + "\n";
    std::vector<std::string> fields = group.values;
    std::ranges::move(mean_fields(group.bests), std::back_inserter(fields));
    table.csv += csv_line(fields);
  }
  return table;
}

}  // namespace tapestry
