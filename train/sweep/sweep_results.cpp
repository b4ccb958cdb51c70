// SPDX-License-Identifier: BSD-3-Clause
#include "train/sweep/sweep_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <numeric>
#include <utility>

#include "data/io/number.h"
#include "data/io/utf8.h"
#include "train/base/format.h"
#include "train/checkpoint/metrics.h"
#include "train/report/curve.h"

namespace tapestry {
namespace {

std::string csv_line(const std::vector<std::string>& fields) {
  std::string line;
  for (std::string field : fields) {
    if (!line.empty()) line += ',';
    // A spreadsheet program would compute such a text. The apostrophe makes it a text there.
    const bool is_formula =
        field.find_first_of("=+-@\t\r") == 0 && !parse_number<double>(field).has_value();
    if (is_formula) field.insert(0, 1, '\'');
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
std::vector<SeedGroup> group_by_seed(const std::vector<SweepAxis>& axes,
                                     const std::vector<SweepResult>& results,
                                     std::ptrdiff_t seed_axis) {
  std::vector<SweepValues> runs;
  for (const SweepResult& result : results) runs.push_back(result.values);
  std::vector<SeedGroup> groups;
  for (const std::vector<std::size_t>& setting : group_by_setting(axes, runs)) {
    SeedGroup& group = groups.emplace_back(SeedGroup{.values = runs[setting.front()], .bests = {}});
    group.values.erase(group.values.begin() + seed_axis);
    for (const std::size_t i : setting) {
      const SweepResult& result = results[i];
      if (result.best && result.state == "finished") group.bests.push_back(result.best->value);
    }
  }
  return groups;
}

/// "3 runs: loss 0.1200, deviation 0.0100, 95 % interval 0.0952 to 0.1448"
std::string mean_in_words(const std::vector<double>& bests, const std::string& metric) {
  const auto [mean, deviation, low, high] = student_interval(bests);
  if (bests.empty()) return "no finished run";
  if (bests.size() == 1) return fmt::format("1 run: {} {}", metric, format_value(mean, 4));
  return fmt::format("{} runs: {} {}, deviation {}, 95 % interval {} to {}", bests.size(), metric,
                     format_value(mean, 4), format_value(deviation, 4), format_value(low, 4),
                     format_value(high, 4));
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

std::vector<std::vector<std::size_t>> group_by_setting(const std::vector<SweepAxis>& axes,
                                                       const std::vector<SweepValues>& runs) {
  const auto seed = std::ranges::find(axes, "train.seed", &SweepAxis::key) - axes.begin();
  std::map<SweepValues, std::size_t> places;
  std::vector<std::vector<std::size_t>> settings;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    SweepValues values = runs[i];
    if (seed < std::ssize(axes)) values.erase(values.begin() + seed);
    const auto [place, is_new] = places.try_emplace(std::move(values), settings.size());
    if (is_new) settings.emplace_back();
    settings[place->second].push_back(i);
  }
  return settings;
}

std::optional<BestValue> mean_of_setting(const std::vector<std::size_t>& setting,
                                         const std::vector<std::optional<BestValue>>& values) {
  std::vector<BestValue> found;
  for (const std::size_t i : setting) {
    if (values[i]) found.push_back(*values[i]);
  }
  if (found.empty()) return std::nullopt;
  double sum = 0.0;
  for (const BestValue& best : found) sum += best.value;
  return BestValue{.value = sum / static_cast<double>(found.size()), .step = found.front().step};
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
  for (const SeedGroup& group : group_by_seed(axes, results, seed_axis)) {
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
