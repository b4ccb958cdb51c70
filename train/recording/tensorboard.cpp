// SPDX-License-Identifier: BSD-3-Clause
#include "train/recording/tensorboard.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "data/io/durable_file.h"
#include "data/io/number.h"
#include "data/io/utf8.h"
#include "train/base/error.h"

namespace tapestry {
namespace {

constexpr std::size_t step_column = 0, split_column = 2;

std::vector<std::string> split_row(std::string_view line) {
  std::vector<std::string> fields(1);
  for (const char c : line) {
    if (c == ',') {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  return fields;
}

/// Calls visit(fields) for each row.
void for_each_row(std::string_view rows, auto&& visit) {
  while (!rows.empty()) {
    const std::size_t end = rows.find('\n');
    visit(split_row(rows.substr(0, end)));
    rows.remove_prefix(std::min(rows.size(), end == rows.npos ? end : end + 1));
  }
}

std::uint64_t parse_step(const std::vector<std::string>& fields) {
  return std::strtoull(fields[step_column].c_str(), nullptr, 10);
}

/// The size of the heading in bytes, including its line feed.
std::size_t heading_bytes(const std::string& csv) { return csv.find('\n') + 1; }

/// Escapes a text so that Markdown shows it unchanged.
std::string markdown(const std::string& text) {
  std::string result;
  for (const char c : find_invalid_utf8(text) ? escaped(text) : text) {
    if (std::string_view("\\`*_{}[]()>#+-.!|").find(c) != std::string_view::npos) result += '\\';
    if (c == '<') {
      result += "&lt;";
    } else if (c == '&') {
      result += "&amp;";
    } else {
      result += c;
    }
  }
  return result;
}

std::vector<std::vector<std::string>> samples_table(const std::vector<ShownExample>& samples) {
  std::vector<std::vector<std::string>> rows{{"input", "expected", "output"}};
  for (const auto& [input, output, expected] : samples) {
    rows.push_back({markdown(input), markdown(expected), markdown(output)});
  }
  return rows;
}

}  // namespace

TensorBoardLog::TensorBoardLog(const std::filesystem::path& folder, const std::string& metrics_csv)
    : columns_(split_row(std::string_view(metrics_csv).substr(0, heading_bytes(metrics_csv) - 1))) {
  try {
    for (const char* split : {"train", "validation"}) create_folder_durably(folder / split);
  } catch (const UserError& error) {
    folder_problem_ = error.what();
    return;
  }
  constexpr auto all_steps = std::numeric_limits<std::uint64_t>::max();
  training_.emplace(folder / "train" / event_file_name, all_steps);
  validation_.emplace(folder / "validation" / event_file_name, all_steps);
  set_rows(metrics_csv);
}

void TensorBoardLog::set_rows(const std::string& metrics_csv) {
  if (!training_) return;
  const std::string_view rows = std::string_view(metrics_csv).substr(heading_bytes(metrics_csv));
  std::uint64_t last_training = 0, last_validation = 0;
  for_each_row(rows, [&](const std::vector<std::string>& fields) {
    (fields[split_column] == "train" ? last_training : last_validation) = parse_step(fields);
  });
  if (training_->last_step() > last_training) training_->drop_after(last_training);
  if (validation_->last_step() > last_validation) validation_->drop_after(last_validation);
  add_new_rows(rows);
  known_bytes_ = metrics_csv.size();
}

void TensorBoardLog::add_rows(const std::string& metrics_csv) {
  if (!training_) return;
  add_new_rows(std::string_view(metrics_csv).substr(std::min(known_bytes_, metrics_csv.size())));
  known_bytes_ = metrics_csv.size();
}

void TensorBoardLog::add_new_rows(std::string_view rows) {
  for_each_row(rows, [&](const std::vector<std::string>& fields) {
    EventFile& file = fields[split_column] == "train" ? *training_ : *validation_;
    if (parse_step(fields) <= file.last_step()) return;
    EventSummary summary;
    for (std::size_t i = split_column + 1; i < std::min(fields.size(), columns_.size()); ++i) {
      if (const auto value = parse_number<double>(fields[i])) {
        summary.add_scalar(columns_[i], *value);
      }
    }
    file.add(parse_step(fields), summary);
  });
}

void TensorBoardLog::add(const ValidationRecord& record) {
  if (!validation_ || record.step != validation_->last_step()) return;
  EventSummary summary;
  if (record.resident_bytes > 0) {
    summary.add_scalar("resident_bytes", static_cast<double>(record.resident_bytes));
  }
  if (!record.samples.empty()) summary.add_table("samples", samples_table(record.samples));
  for (const BlockRecord& block : record.blocks) {
    summary.add_histogram("weights/" + block.path, block.weights);
    if (block.gradients) summary.add_histogram("gradients/" + block.path, *block.gradients);
    if (block.update_ratio) summary.add_scalar("update_ratio/" + block.path, *block.update_ratio);
  }
  validation_->add(record.step, summary);
}

std::optional<std::string> TensorBoardLog::problem() const {
  if (folder_problem_) return folder_problem_;
  return training_->problem() ? training_->problem() : validation_->problem();
}

}  // namespace tapestry
