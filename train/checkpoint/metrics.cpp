// SPDX-License-Identifier: BSD-3-Clause
#include "train/checkpoint/metrics.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>
#include <utility>

#include "data/io/durable_file.h"
#include "data/io/number.h"
#include "data/io/utf8.h"
#include "train/base/error.h"

namespace tapestry {
namespace {

constexpr std::size_t split_column = 2;

using Fields = std::vector<std::string_view>;

Fields split_fields(std::string_view line) {
  Fields fields(1 + static_cast<std::size_t>(std::ranges::count(line, ',')));
  for (std::string_view& field : fields) {
    const std::size_t end = std::min(line.find(','), line.size());
    field = line.substr(0, end);
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  return fields;
}

bool is_score_name(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

bool is_number(std::string_view text) {
  // Rejects texts that parse_number() accepts but MetricsTable never writes, such as "infinity".
  const bool has_letters = std::ranges::any_of(text, [](char c) { return c > '9' && c != 'e'; });
  if (has_letters) return text == "nan" || text == "-nan" || text == "inf" || text == "-inf";
  return parse_number<double>(text).has_value();
}

/// The expected content of a field, if the field is invalid; empty for a valid field.
std::string_view missing_content(std::size_t column, std::string_view field) {
  if (column == split_column) {
    return field == "train" || field == "validation" ? "" : "train or validation";
  }
  if (column < split_column) {
    return parse_number<std::uint64_t>(field) ? "" : "a whole number";
  }
  return field.empty() || is_number(field) ? "" : "a number or nothing";
}

/// Reads and checks a table line by line.
class MetricsReader {
 public:
  MetricsReader(std::string_view csv, std::string_view place) : rest_(csv), place_(place) {}

  std::vector<std::string> check_all() {
    const Fields names = check_heading();
    while (!rest_.empty()) check_row(next_line(), names);
    return {names.begin() + std::ranges::count(metrics_heading, ',') + 1, names.end()};
  }

 private:
  Fields check_heading() {
    const std::string_view heading = next_line();
    Fields names = split_fields(heading);
    const std::string_view scores =
        heading.substr(std::min(heading.size(), metrics_heading.size()));
    if (!heading.starts_with(metrics_heading) || !(scores.empty() || scores.starts_with(',')) ||
        !std::ranges::all_of(names, is_score_name)) {
      reject(fmt::format("'{}'", excerpt(heading)), metrics_heading);
    }
    return names;
  }

  void check_row(std::string_view line, const Fields& names) const {
    const Fields fields = split_fields(line);
    if (fields.size() != names.size()) {
      reject(fmt::format("{} field{}", fields.size(), fields.size() == 1 ? "" : "s"),
             fmt::to_string(names.size()));
    }
    for (std::size_t i = 0; i < fields.size(); ++i) {
      const std::string_view expected = missing_content(i, fields[i]);
      if (expected.empty()) continue;
      reject(fmt::format("{} '{}'", names[i], excerpt(fields[i])), expected);
    }
  }

  std::string_view next_line() {
    ++line_number_;
    const std::size_t end = rest_.find('\n');
    if (end == rest_.npos) {
      reject(fmt::format("the end of the table after '{}'", excerpt(rest_)), "a line end");
    }
    const std::string_view line = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return line;
  }

  [[noreturn]] void reject(std::string_view found, std::string_view expected) const {
    throw CheckpointError(
        fmt::format("{}: line {}: found {}, expected {}", place_, line_number_, found, expected),
        "use a checkpoint that this program wrote");
  }

  std::string_view rest_;
  std::string_view place_;
  std::size_t line_number_ = 0;
};

/// The value of a score as text; empty if the task did not compute the score.
std::string score_text(const Scores& scores, const std::string& name) {
  const auto score = scores.others.find(name);
  return score == scores.others.end() ? "" : fmt::format("{}", score->second);
}

}  // namespace

MetricsTable::MetricsTable(const std::vector<std::string>& score_names)
    : csv_(fmt::format("{}{}{}\n", metrics_heading, score_names.empty() ? "" : ",",
                       fmt::join(score_names, ","))),
      score_names_(score_names) {}

MetricsTable::MetricsTable(std::string csv, std::string_view place)
    : csv_(std::move(csv)), score_names_(require_metrics(csv_, place)) {}

void MetricsTable::add(const TrainMetrics& row) {
  csv_ += fmt::format("{},{},train,{},{},,,{},{},{}{}\n", row.step, row.epoch, row.loss,
                      row.perplexity, row.learning_rate, row.gradient_norm, row.target_tokens,
                      std::string(score_names_.size(), ','));
}

void MetricsTable::add_validation(std::uint64_t step, std::uint64_t epoch, const Scores& scores) {
  csv_ +=
      fmt::format("{},{},validation,{},{},{},{},,,{}", step, epoch, scores.loss, scores.perplexity,
                  scores.token_accuracy, score_text(scores, "exact_match"), scores.tokens);
  for (const std::string& name : score_names_) csv_ += fmt::format(",{}", score_text(scores, name));
  csv_ += '\n';
}

void MetricsTable::erase(std::size_t begin, std::size_t end) { csv_.erase(begin, end - begin); }

void MetricsTable::write(const std::filesystem::path& path, FileSystem& files) const {
  write_file_durably(path, csv_, files);
}

std::map<std::uint64_t, double> validation_values(const std::string& csv, std::string_view column) {
  std::istringstream lines(csv);
  std::string line;
  std::getline(lines, line);
  const Fields heading = split_fields(line);
  const auto index = static_cast<std::size_t>(std::ranges::find(heading, column) - heading.begin());
  std::map<std::uint64_t, double> values;
  while (index < heading.size() && std::getline(lines, line)) {
    const Fields fields = split_fields(line);
    if (fields[split_column] != "validation" || fields[index].empty()) continue;
    values[std::stoull(std::string(fields[0]))] =
        parse_number<double>(fields[index]).value_or(std::nan(""));
  }
  return values;
}

double score_value(const Scores& scores, const std::string& metric) {
  if (metric == "loss") return scores.loss;
  if (metric == "perplexity") return scores.perplexity;
  if (metric == "token_accuracy") return scores.token_accuracy;
  const auto score = scores.others.find(metric);
  return score == scores.others.end() ? std::nan("") : score->second;
}

std::vector<std::uint64_t> best_validations(const std::string& csv, std::string_view metric) {
  const auto values = validation_values(csv, metric);
  std::vector<std::uint64_t> steps;
  for (const auto& [step, value] : values) {
    if (std::isfinite(value)) steps.push_back(step);
  }
  std::ranges::stable_sort(steps, [&](std::uint64_t a, std::uint64_t b) {
    return is_better(metric, values.at(a), values.at(b));
  });
  return steps;
}

std::vector<std::string> require_metrics(std::string_view csv, std::string_view place) {
  return MetricsReader(csv, place).check_all();
}

}  // namespace tapestry
