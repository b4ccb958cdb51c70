// SPDX-License-Identifier: BSD-3-Clause
#include "train/sweep/sweep_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "data/io/number.h"
#include "data/io/random.h"
#include "data/io/utf8.h"
#include "train/base/error.h"

namespace tapestry {
namespace {

/// Divides a text at commas that are not in brackets, braces or quotes.
std::vector<std::string> split_values(std::string_view text) {
  std::vector<std::string> values(1);
  std::size_t depth = 0;
  char quote = '\0';
  for (const char c : text) {
    if (quote != '\0') {
      if (c == quote) quote = '\0';
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
    if (c == ',' && depth == 0 && quote == '\0') {
      values.emplace_back();
    } else {
      values.back() += c;
    }
  }
  return values;
}

[[noreturn]] void reject_override(const std::string& override, const std::string& found,
                                  const std::string& hint) {
  throw UsageError(fmt::format("{}: {}", escaped(override), found), hint);
}

/// The numbers of a range such as `1..5`; empty if the text is not a range.
std::vector<std::string> range_values(const std::string& override, std::string_view text) {
  const std::size_t dots = text.find("..");
  if (dots == text.npos) return {};
  const auto first = parse_number<std::int64_t>(text.substr(0, dots)),
             last = parse_number<std::int64_t>(text.substr(dots + 2));
  if (!first || !last) {
    const auto from = parse_number<double>(text.substr(0, dots)),
               to = parse_number<double>(text.substr(dots + 2));
    if (!from || !to) return {};
    reject_override(override, "found a range of fractions, expected a range of whole numbers",
                    fmt::format("list the values, such as {}{:.6g},{:.6g},{:.6g}",
                                override.substr(0, override.size() - text.size()), *from,
                                (*from + *to) / 2, *to));
  }
  // Subtracts unsigned numbers, since the difference of signed numbers could overflow.
  const auto steps = static_cast<std::uint64_t>(*last) - static_cast<std::uint64_t>(*first);
  if (*last < *first || steps >= max_sweep_runs) {
    reject_override(override, fmt::format("expected a range of 1 to {} numbers", max_sweep_runs),
                    "write it as FIRST..LAST");
  }
  std::vector<std::string> values;
  for (std::int64_t value = *first;; ++value) {
    values.push_back(fmt::to_string(value));
    if (value == *last) return values;
  }
}

/// The values of an override: a range, or texts separated by commas.
std::vector<std::string> parse_values(const std::string& override, std::string_view text) {
  std::vector<std::string> values = range_values(override, text);
  if (values.empty()) values = split_values(text);
  if (values.size() > 1 && std::ranges::find(values, "") != values.end()) {
    reject_override(override, "found an empty value", "remove one of the commas");
  }
  if (std::set<std::string>(values.begin(), values.end()).size() < values.size()) {
    reject_override(override, "found a value twice", "write each value once");
  }
  return values;
}

}  // namespace

SweepOverrides parse_sweep_overrides(const std::vector<std::string>& overrides) {
  SweepOverrides parsed;
  std::set<std::string> keys;
  for (const std::string& override : overrides) {
    const std::size_t equals = override.find('=');
    if (equals == override.npos || equals == 0) {
      reject_override(override, "expected section.key=value",
                      "write one or several values, such as schedule.learning_rate=1e-4,3e-4");
    }
    const std::string key = override.substr(0, equals);
    if (!keys.insert(key).second) {
      reject_override(override, "found the key a second time",
                      "write all of its values once, such as train.seed=1,2,3");
    }
    std::vector<std::string> values =
        parse_values(override, std::string_view(override).substr(equals + 1));
    if (values.size() == 1) {
      parsed.fixed.push_back(key + "=" + values.front());
    } else {
      parsed.axes.push_back({.key = key, .values = std::move(values)});
    }
  }
  return parsed;
}

std::vector<SweepValues> all_combinations(const std::vector<SweepAxis>& axes) {
  std::vector<SweepValues> combinations(1);
  for (const SweepAxis& axis : axes) {
    if (combinations.size() * axis.values.size() > max_sweep_runs) {
      throw UsageError(
          fmt::format("found more than {} combinations of values, expected fewer", max_sweep_runs),
          "try fewer values, or draw some of the combinations with --samples");
    }
    std::vector<SweepValues> longer;
    for (const auto& combination : combinations) {
      for (const std::string& value : axis.values) {
        longer.push_back(combination);
        longer.back().push_back(value);
      }
    }
    combinations = std::move(longer);
  }
  return combinations;
}

std::vector<SweepValues> sampled_combinations(const std::vector<SweepAxis>& axes, std::size_t count,
                                              std::uint64_t seed) {
  std::size_t total = 1;
  for (const SweepAxis& axis : axes) total = std::min(total * axis.values.size(), count + 1);
  if (total <= count) return all_combinations(axes);
  RandomDraws random(seed, DrawPurpose::sweep_sample, 0);
  std::set<std::vector<std::size_t>> drawn;  // drawn combinations, as indices of values
  while (drawn.size() < count) {
    std::vector<std::size_t> indices;
    for (const SweepAxis& axis : axes) indices.push_back(random.below(axis.values.size()));
    drawn.insert(std::move(indices));
  }
  std::vector<SweepValues> sample;
  for (const auto& indices : drawn) {
    SweepValues& values = sample.emplace_back();
    for (std::size_t i = 0; i < axes.size(); ++i) values.push_back(axes[i].values[indices[i]]);
  }
  return sample;
}

std::vector<SweepStage> sweep_stages(std::size_t settings, std::size_t factor, std::uint64_t steps,
                                     std::uint64_t validate_every) {
  if (factor == 0) return {{.step = steps, .settings = settings}};
  std::vector<std::size_t> sizes{settings};  // settings of each stage, if there are enough steps
  while (sizes.back() > 1) sizes.push_back((sizes.back() + factor - 1) / factor);
  std::vector<std::uint64_t> ends;  // last steps of the stages, the last stage first
  for (std::uint64_t exact = steps; ends.size() < sizes.size(); exact /= factor) {
    const std::uint64_t validated =
        std::max<std::uint64_t>((exact + validate_every - 1) / validate_every, 1) * validate_every;
    const std::uint64_t end = std::min(validated, steps);
    if (!ends.empty() && end == ends.back()) break;
    ends.push_back(end);
  }
  std::vector<SweepStage> stages;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    stages.push_back({.step = ends[ends.size() - 1 - i], .settings = sizes[i]});
  }
  return stages;
}

}  // namespace tapestry
