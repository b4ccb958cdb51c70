// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <string>
#include <string_view>

#include "tests/fuzz/fuzz.h"
#include "train/base/error.h"
#include "train/checkpoint/metrics.h"

namespace tapestry::fuzz {
namespace {

/// Checks that metrics.csv is safe to open in a spreadsheet: it has no quotes, formulas or escapes.
void require_harmless(std::string_view csv) {
  require(csv.starts_with(metrics_heading), "a table begins with the heading");
  require(csv.find_first_not_of("abcdefghijklmnopqrstuvwxyz_0123456789,.+-\n") == csv.npos,
          "a table has only names and numbers");
  const auto columns = std::ranges::count(csv.substr(0, csv.find('\n')), ',');
  while (!csv.empty()) {
    const std::string_view line = csv.substr(0, csv.find('\n'));
    require(std::ranges::count(line, ',') == columns, "a line has a field for each column");
    csv.remove_prefix(line.size() + 1);
  }
}

}  // namespace

/// Input: the text of metrics.csv in a checkpoint.
void feed_metrics(std::string_view input) {
  const std::string text(input);
  MetricsTable table(text, "x.h5");
  require(table.csv() == text, "reading a table does not change it");
  require_harmless(text);
  table.add({.step = 1, .loss = 0.5});
  table.add_validation(1, 1, {.tokens = 1, .others = {{"exact_match", 0.5}}});
  try {
    require_metrics(table.csv(), "x.h5");
  } catch (const CheckpointError&) {
    require(false, "rows can be added to a table that was read");
  }
}

}  // namespace tapestry::fuzz
