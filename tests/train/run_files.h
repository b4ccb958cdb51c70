// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/train/program.h"
#include "train/recording/event_log.h"

/// Reads the files of a run.
namespace tapestry::test {

/// The lines of events.jsonl in a run directory that have the given event.
inline std::string event_lines(const std::filesystem::path& run, const std::string& event) {
  std::string found;
  for (const std::string& line : split_lines(read_text(run / events_file_name))) {
    if (contains(line, "\"event\":\"" + event + "\"")) found += line + "\n";
  }
  return found;
}

/// Values by step.
using Points = std::map<std::uint64_t, double>;

/// The points of metrics.csv in a run directory by split and column name, excluding the columns
/// before the first score.
inline std::map<std::string, std::map<std::string, Points>> metrics_of(
    const std::filesystem::path& run) {
  const auto fields_of = [](const std::string& line) {
    std::vector<std::string> fields(1);
    for (const char c : line) c == ',' ? void(fields.emplace_back()) : void(fields.back() += c);
    return fields;
  };
  std::map<std::string, std::map<std::string, Points>> points;
  std::vector<std::string> lines = split_lines(read_text(run / "metrics.csv"));
  const std::vector<std::string> columns = fields_of(lines.at(0));
  lines.erase(lines.begin());
  for (const std::string& line : lines) {
    const std::vector<std::string> row = fields_of(line);
    REQUIRE(row.size() == columns.size());
    for (std::size_t i = 3; i < row.size(); ++i) {
      if (!row[i].empty()) points[row[2]][columns[i]][std::stoull(row[0])] = std::stod(row[i]);
    }
  }
  return points;
}

}  // namespace tapestry::test
