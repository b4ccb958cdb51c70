#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "data/io/utf8.h"
#include "train/checkpoint/metrics.h"
#include "train/report/curve.h"
#include "train/sweep/sweep.h"

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

/// Mean, sample standard deviation, and half the width of the 95 % confidence interval of the mean;
/// NaN without values, and the last two of one value.
struct Interval {
  double mean, deviation, half_width;
};
Interval student_interval(const std::vector<double>& values) {
  const auto n = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  if (values.size() < 2) return {.mean = mean, .deviation = NAN, .half_width = NAN};
  double squares = 0.0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  const double deviation = std::sqrt(squares / (n - 1));
  return {.mean = mean,
          .deviation = deviation,
          .half_width = student_t_975(values.size() - 1) * deviation / std::sqrt(n)};
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
  std::vector<SweepAxis> others = axes;
  others.erase(others.begin() + (seed - axes.begin()));
  std::vector<std::pair<SweepValues, std::vector<double>>> groups;  // with their best values
  for (const SweepResult& result : results) {
    SweepValues values = result.values;
    values.erase(values.begin() + (seed - axes.begin()));
    auto group = std::ranges::find(groups, values, &decltype(groups)::value_type::first);
    if (group == groups.end()) group = groups.insert(group, {std::move(values), {}});
    if (result.best && result.state == "finished") group->second.push_back(result.best->value);
  }
  std::vector<std::string> heading;
  for (const SweepAxis& axis : others) heading.push_back(axis.key);
  heading.insert(heading.end(), {"runs", "mean", "deviation", "low", "high"});
  SeedTable table{.text = "", .csv = csv_line(heading)};
  for (const auto& [values, bests] : groups) {
    for (std::size_t i = 0; i < others.size(); ++i) {
      table.text += escaped(fmt::format("{}={}  ", others[i].key, values[i]));
    }
    std::vector<std::string> fields = values;
    fields.push_back(fmt::to_string(bests.size()));
    const auto [mean, deviation, half_width] = student_interval(bests);
    if (bests.empty()) {
      table.text += "no finished run\n";
      fields.insert(fields.end(), {"", "", "", ""});
    } else if (bests.size() == 1) {
      table.text += fmt::format("1 run: {} {:.4f}\n", metric, mean);
      fields.insert(fields.end(), {csv_number(mean), "", "", ""});
    } else {
      const double low = mean - half_width, high = mean + half_width;
      table.text +=
          fmt::format("{} runs: {} {:.4f}, deviation {:.4f}, 95 % interval {:.4f} to {:.4f}\n",
                      bests.size(), metric, mean, deviation, low, high);
      fields.insert(fields.end(),
                    {csv_number(mean), csv_number(deviation), csv_number(low), csv_number(high)});
    }
    table.csv += csv_line(fields);
  }
  return table;
}

}  // namespace tapestry
