#include "train/checkpoint/metrics.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <sstream>
#include <string>
#include <utility>

#include "data/io/durable_file.h"
#include "data/io/number.h"
#include "data/io/utf8.h"
#include "train/base/error.h"

namespace tapestry {
namespace {

/// The content of a column in the rows of one split.
enum class Content { whole_number, number, number_or_nothing, nothing };

struct Column {
  std::string_view name;
  Content in_training;
  Content in_validation;
};

constexpr std::size_t split_column = 2;

constexpr std::array<Column, 10> columns = {{
    {"step", Content::whole_number, Content::whole_number},
    {"epoch", Content::whole_number, Content::whole_number},
    {"split", Content::nothing, Content::nothing},  // read first
    {"loss", Content::number, Content::number},
    {"perplexity", Content::number, Content::number},
    {"token_accuracy", Content::nothing, Content::number},
    {"exact_match", Content::nothing, Content::number_or_nothing},
    {"learning_rate", Content::number, Content::nothing},
    {"gradient_norm", Content::number, Content::nothing},
    {"target_tokens", Content::whole_number, Content::whole_number},
}};

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
  // parse_number() also accepts other names, such as "infinity", which MetricsTable never writes.
  const bool has_letters = std::ranges::any_of(text, [](char c) { return c > '9' && c != 'e'; });
  if (has_letters) return text == "nan" || text == "-nan" || text == "inf" || text == "-inf";
  return parse_number<double>(text).has_value();
}

bool fits(std::string_view text, Content content) {
  switch (content) {
    case Content::whole_number:
      return parse_number<std::uint64_t>(text).has_value();
    case Content::number:
      return is_number(text);
    case Content::number_or_nothing:
      return text.empty() || is_number(text);
    case Content::nothing:
      break;
  }
  return text.empty();
}

std::string_view describe(Content content) {
  switch (content) {
    case Content::whole_number:
      return "a whole number";
    case Content::number:
      return "a number";
    case Content::number_or_nothing:
      return "a number or nothing";
    case Content::nothing:
      break;
  }
  return "nothing";
}

/// Reads and checks a table line by line.
class MetricsReader {
 public:
  MetricsReader(std::string_view csv, std::string_view place) : rest_(csv), place_(place) {}

  std::vector<std::string> check_all() {
    check_heading();
    while (!rest_.empty()) check_row(next_line());
    return score_names_;
  }

 private:
  void check_heading() {
    const std::string_view found = next_line();
    const auto refuse_heading = [&] {
      refuse(fmt::format("'{}'", excerpt(found)), metrics_heading);
    };
    if (!found.starts_with(metrics_heading)) refuse_heading();
    std::string_view more = found.substr(metrics_heading.size());
    while (!more.empty()) {
      const std::string_view name = more.substr(1, more.find(',', 1) - 1);
      if (more.front() != ',' || !is_score_name(name)) refuse_heading();
      score_names_.emplace_back(name);
      more.remove_prefix(1 + name.size());
    }
  }

  void check_row(std::string_view line) const {
    const Fields fields = split(line);
    const std::string_view split = fields[split_column];
    const bool training = split == "train";
    if (!training && split != "validation") {
      refuse(fmt::format("split '{}'", excerpt(split)), "train or validation");
    }
    for (std::size_t i = 0; i < fields.size(); ++i) {
      const Column column = i < columns.size()
                                ? columns[i]
                                : Column{.name = score_names_[i - columns.size()],
                                         .in_training = Content::nothing,
                                         .in_validation = Content::number_or_nothing};
      const Content content = training ? column.in_training : column.in_validation;
      if (i == split_column || fits(fields[i], content)) continue;
      refuse(fmt::format("{} '{}' in a row of {}", column.name, excerpt(fields[i]), split),
             describe(content));
    }
  }

  Fields split(std::string_view line) const {
    const auto count = 1 + static_cast<std::size_t>(std::ranges::count(line, ','));
    const std::size_t expected = columns.size() + score_names_.size();
    if (count != expected) refuse(fmt::format("{} fields", count), fmt::to_string(expected));
    return split_fields(line);
  }

  std::string_view next_line() {
    ++line_number_;
    const std::size_t end = rest_.find('\n');
    if (end == rest_.npos) {
      refuse(fmt::format("the end of the table after '{}'", excerpt(rest_)), "a line end");
    }
    const std::string_view line = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return line;
  }

  [[noreturn]] void refuse(std::string_view found, std::string_view expected) const {
    throw CheckpointError(
        fmt::format("{}: line {}: found {}, expected {}", place_, line_number_, found, expected),
        "use a checkpoint that this program wrote");
  }

  std::string_view rest_;
  std::string_view place_;
  std::size_t line_number_ = 0;
  std::vector<std::string> score_names_;
};

/// The value of a score as text, empty if the task did not compute it.
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
  write_file_durably(path, std::as_bytes(std::span(csv_)), files);
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
