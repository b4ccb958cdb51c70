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
    // A spreadsheet program would evaluate a formula. With an apostrophe, it shows the text.
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

/// The index of train.seed; the number of axes if train.seed is not an axis.
std::size_t seed_axis(const std::vector<SweepAxis>& axes) {
  const auto seed = std::ranges::find(axes, "train.seed", &SweepAxis::key);
  return static_cast<std::size_t>(seed - axes.begin());
}

/// The keys of the values of a setting.
std::vector<std::string> setting_keys(const std::vector<SweepAxis>& axes) {
  std::vector<std::string> keys;
  for (const SweepAxis& axis : axes) {
    if (axis.key != "train.seed") keys.push_back(axis.key);
  }
  return keys;
}

/// The sample standard deviation of the best values of a setting, and the 95 % confidence interval
/// of their mean. NaN for fewer than two values.
struct Spread {
  double deviation = NAN, low = NAN, high = NAN;
};

Spread spread_of(const Setting& setting) {
  if (setting.bests.size() < 2) return {};
  const auto n = static_cast<double>(setting.bests.size());
  const double mean = *setting.mean();
  double squares = 0.0;
  for (const auto& [value, step] : setting.bests) squares += (value - mean) * (value - mean);
  const double deviation = std::sqrt(squares / (n - 1));
  const double half_width = student_t_975(setting.bests.size() - 1) * deviation / std::sqrt(n);
  return {.deviation = deviation, .low = mean - half_width, .high = mean + half_width};
}

/// "3 runs: loss 0.1200, deviation 0.0100, 95 % interval 0.0952 to 0.1448"
std::string mean_in_words(const Setting& setting, const std::string& metric) {
  const std::size_t runs = setting.bests.size();
  if (runs == 0) return "no finished run";
  const std::string mean = fmt::format("{} {}", metric, format_value(*setting.mean(), 4));
  if (runs == 1) return fmt::format("1 run: {}", mean);
  const auto [deviation, low, high] = spread_of(setting);
  return fmt::format("{} runs: {}, deviation {}, 95 % interval {} to {}", runs, mean,
                     format_value(deviation, 4), format_value(low, 4), format_value(high, 4));
}

/// Formats the columns runs, mean, deviation, low and high.
std::vector<std::string> mean_fields(const Setting& setting) {
  const std::optional<double> mean = setting.mean();
  std::vector<std::string> fields{fmt::to_string(setting.bests.size()),
                                  mean ? csv_number(*mean) : ""};
  const auto [deviation, low, high] = spread_of(setting);
  for (const double value : {deviation, low, high}) {
    fields.push_back(setting.bests.size() < 2 ? "" : csv_number(value));
  }
  return fields;
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

std::optional<double> Setting::mean() const {
  if (bests.empty()) return std::nullopt;
  double sum = 0.0;
  for (const BestValue& best : bests) sum += best.value;
  return sum / static_cast<double>(bests.size());
}

std::vector<Setting> group_by_setting(const std::vector<SweepAxis>& axes,
                                      const std::vector<SweepResult>& results) {
  const std::size_t seed = seed_axis(axes);
  std::map<SweepValues, std::size_t> places;
  std::vector<Setting> settings;
  for (std::size_t i = 0; i < results.size(); ++i) {
    SweepValues values = results[i].values;
    if (seed < axes.size()) values.erase(values.begin() + static_cast<std::ptrdiff_t>(seed));
    const auto [place, is_new] = places.try_emplace(values, settings.size());
    if (is_new) settings.push_back({.values = std::move(values), .runs = {}, .bests = {}});
    Setting& setting = settings[place->second];
    setting.runs.push_back(i);
    const bool has_best = results[i].best && results[i].state == "finished";
    if (has_best) setting.bests.push_back(*results[i].best);
  }
  return settings;
}

std::vector<std::size_t> best_settings(const std::vector<Setting>& settings,
                                       const std::string& metric, std::size_t count) {
  std::vector<std::size_t> order(settings.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    const auto mean_a = settings[a].mean(), mean_b = settings[b].mean();
    if (!mean_a || !mean_b) return mean_a.has_value() && !mean_b.has_value();
    return is_better(metric, *mean_a, *mean_b);
  });
  order.resize(std::min(count, order.size()));
  std::ranges::sort(order);
  return order;
}

std::vector<std::string> overrides_of(const std::vector<SweepAxis>& axes, const Setting& setting) {
  std::vector<std::string> overrides = setting_keys(axes);
  for (std::size_t i = 0; i < overrides.size(); ++i) overrides[i] += "=" + setting.values[i];
  return overrides;
}

std::string sweep_csv(const std::vector<SweepAxis>& axes, const std::vector<SweepResult>& results,
                      const std::string& metric) {
  std::vector<std::string> heading{"run"};
  for (const SweepAxis& axis : axes) heading.push_back(axis.key);
  heading.insert(heading.end(), {"state", "steps", metric, "best_step"});
  std::string csv = csv_line(heading);
  for (const SweepResult& result : results) {
    std::vector<std::string> fields{result.name};
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
                                         const std::vector<Setting>& settings,
                                         const std::string& metric) {
  if (seed_axis(axes) == axes.size()) return std::nullopt;
  std::vector<std::string> heading = setting_keys(axes);
  heading.insert(heading.end(), {"runs", "mean", "deviation", "low", "high"});
  SeedTable table{.text = "", .csv = csv_line(heading)};
  for (const Setting& setting : settings) {
    for (const std::string& override : overrides_of(axes, setting)) {
      table.text += escaped(override) + "  ";
    }
    table.text += mean_in_words(setting, metric) + "\n";
    std::vector<std::string> fields = setting.values;
    std::ranges::move(mean_fields(setting), std::back_inserter(fields));
    table.csv += csv_line(fields);
  }
  return table;
}

}  // namespace tapestry
