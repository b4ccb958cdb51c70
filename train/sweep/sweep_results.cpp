#include "train/sweep/sweep_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "data/io/utf8.h"
#include "train/metrics.h"
#include "train/report/curve.h"

namespace tapestry {
namespace {

constexpr std::string_view seed_key = "train.seed";

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == text.npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

std::string csv_line(const std::vector<std::string>& fields) {
  std::string line;
  for (const std::string& field : fields) {
    if (!line.empty()) line += ',';
    line += csv_field(field);
  }
  return line + '\n';
}

SeedSummary summarize(std::vector<std::string> values, const std::vector<double>& bests) {
  SeedSummary summary{.values = std::move(values), .runs = bests.size()};
  if (bests.empty()) return summary;
  const auto n = static_cast<double>(bests.size());
  const double mean = std::accumulate(bests.begin(), bests.end(), 0.0) / n;
  summary.mean = mean;
  if (bests.size() < 2) return summary;
  double squares = 0.0;
  for (const double best : bests) squares += (best - mean) * (best - mean);
  const double deviation = std::sqrt(squares / (n - 1));
  summary.deviation = deviation;
  summary.half_width = student_t_975(bests.size() - 1) * deviation / std::sqrt(n);
  return summary;
}

}  // namespace

std::string_view sweep_end_name(SweepEnd end) {
  constexpr std::array<std::string_view, 3> names = {"finished", "abandoned", "failed"};
  return names[static_cast<std::size_t>(end)];
}

std::optional<BestValue> best_value(const std::string& metrics_csv, const std::string& metric,
                                    std::uint64_t last_step) {
  std::optional<BestValue> best;
  for (const auto& [step, value] : validation_values(metrics_csv, metric)) {
    if (step > last_step || !std::isfinite(value)) continue;
    if (!best || is_better(metric, value, best->value)) best = {.value = value, .step = step};
  }
  return best;
}

std::vector<std::size_t> best_runs(std::span<const std::optional<double>> values,
                                   const std::string& metric, std::size_t count) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    if (!values[a] || !values[b]) return values[a].has_value() && !values[b].has_value();
    return is_better(metric, *values[a], *values[b]);
  });
  order.resize(std::min(count, order.size()));
  std::ranges::sort(order);
  return order;
}

std::vector<SeedSummary> summarize_seeds(const std::vector<SweepAxis>& axes,
                                         const std::vector<SweepResult>& results) {
  const auto seed = std::ranges::find(axes, seed_key, &SweepAxis::key);
  if (seed == axes.end()) return {};
  std::vector<std::vector<std::string>> groups;
  std::vector<std::vector<double>> bests;
  for (const SweepResult& result : results) {
    std::vector<std::string> values = result.values;
    values.erase(values.begin() + (seed - axes.begin()));
    const auto found = std::ranges::find(groups, values);
    const auto group = static_cast<std::size_t>(found - groups.begin());
    if (found == groups.end()) {
      groups.push_back(std::move(values));
      bests.emplace_back();
    }
    if (result.best && result.end == SweepEnd::finished) bests[group].push_back(*result.best);
  }
  std::vector<SeedSummary> summaries;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    summaries.push_back(summarize(groups[i], bests[i]));
  }
  return summaries;
}

std::string seed_summary_line(const std::vector<SweepAxis>& axes, const SeedSummary& summary,
                              const std::string& metric) {
  std::string line;
  std::size_t i = 0;
  for (const SweepAxis& axis : axes) {
    if (axis.key != seed_key) line += fmt::format("{}={}  ", axis.key, summary.values[i++]);
  }
  line = escaped(line);
  if (!summary.mean) return line + "no finished run";
  const double mean = *summary.mean;
  if (!summary.half_width) return line + fmt::format("1 run: {} {:.4f}", metric, mean);
  return line + fmt::format("{} runs: {} {:.4f}, deviation {:.4f}, 95 % interval {:.4f} to {:.4f}",
                            summary.runs, metric, mean, *summary.deviation,
                            mean - *summary.half_width, mean + *summary.half_width);
}

std::string seed_summaries_csv(const std::vector<SweepAxis>& axes,
                               const std::vector<SeedSummary>& summaries) {
  const auto number = [](const std::optional<double>& value) {
    return value ? fmt::format("{:.17g}", *value) : std::string();
  };
  std::vector<std::string> heading;
  for (const SweepAxis& axis : axes) {
    if (axis.key != seed_key) heading.push_back(axis.key);
  }
  heading.insert(heading.end(), {"runs", "mean", "deviation", "low", "high"});
  std::string csv = csv_line(heading);
  for (const SeedSummary& summary : summaries) {
    const auto end_of_interval = [&](double sign) {
      if (!summary.half_width) return std::string();
      return number(*summary.mean + sign * *summary.half_width);
    };
    std::vector<std::string> fields = summary.values;
    fields.insert(fields.end(),
                  {fmt::to_string(summary.runs), number(summary.mean), number(summary.deviation),
                   end_of_interval(-1), end_of_interval(1)});
    csv += csv_line(fields);
  }
  return csv;
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
    fields.emplace_back(sweep_end_name(result.end));
    fields.push_back(fmt::to_string(result.steps));
    fields.push_back(result.best ? fmt::format("{:.17g}", *result.best) : "");
    fields.push_back(result.best ? fmt::to_string(result.best_step) : "");
    csv += csv_line(fields);
  }
  return csv;
}

}  // namespace tapestry
