#include "train/sweep/sweep_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "data/io/number.h"
#include "data/io/utf8.h"
#include "data/random.h"
#include "train/error.h"

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

[[noreturn]] void refuse(const std::string& override, const std::string& found,
                         const std::string& hint) {
  throw UsageError(fmt::format("{}: {}", escaped(override), found), hint);
}

/// The numbers of `1..5`; empty if the text is no range.
std::vector<std::string> range_values(const std::string& override, std::string_view text) {
  const std::size_t dots = text.find("..");
  if (dots == text.npos) return {};
  const auto first = parse_number<std::int64_t>(text.substr(0, dots)),
             last = parse_number<std::int64_t>(text.substr(dots + 2));
  if (!first || !last) return {};
  // The difference of unsigned numbers cannot overflow.
  const auto count = static_cast<std::uint64_t>(*last) - static_cast<std::uint64_t>(*first) + 1;
  if (*last < *first) refuse(override, "found an empty range", "write it as FIRST..LAST");
  if (count > most_sweep_runs || count == 0) {
    refuse(override,
           fmt::format("found a range of {} numbers, expected at most {}", count, most_sweep_runs),
           "try fewer values");
  }
  std::vector<std::string> values;
  for (std::uint64_t i = 0; i < count; ++i) {
    values.push_back(fmt::to_string(*first + static_cast<std::int64_t>(i)));
  }
  return values;
}

/// The number of combinations of values; `most_sweep_runs` + 1 if there are more.
std::size_t count_combinations(const std::vector<SweepAxis>& axes) {
  std::size_t count = 1;
  for (const SweepAxis& axis : axes) {
    count *= axis.values.size();
    if (count > most_sweep_runs) return most_sweep_runs + 1;
  }
  return count;
}

std::vector<std::vector<std::string>> sample_small_grid(const std::vector<SweepAxis>& axes,
                                                        std::size_t count, RandomDraws& random) {
  const auto combinations = all_combinations(axes);
  std::vector<std::size_t> order(combinations.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  shuffle(order, random);
  order.resize(std::min(count, order.size()));
  std::ranges::sort(order);
  std::vector<std::vector<std::string>> sample;
  for (const std::size_t i : order) sample.push_back(combinations[i]);
  return sample;
}

/// Draws combinations until `count` are distinct, of more than that many. A combination is the
/// indices of its values, the digits of its number in a mixed radix: all are equally probable, the
/// order of the set is that of the numbers, and no product can overflow.
std::vector<std::vector<std::string>> sample_large_grid(const std::vector<SweepAxis>& axes,
                                                        std::size_t count, RandomDraws& random) {
  std::set<std::vector<std::size_t>> drawn;
  while (drawn.size() < count) {
    std::vector<std::size_t> digits;
    for (const SweepAxis& axis : axes) digits.push_back(random.below(axis.values.size()));
    drawn.insert(std::move(digits));
  }
  std::vector<std::vector<std::string>> sample;
  for (const auto& digits : drawn) {
    std::vector<std::string>& values = sample.emplace_back();
    for (std::size_t i = 0; i < axes.size(); ++i) values.push_back(axes[i].values[digits[i]]);
  }
  return sample;
}

}  // namespace

SweepOverrides parse_sweep_overrides(const std::vector<std::string>& overrides) {
  SweepOverrides parsed;
  std::set<std::string> keys;
  for (const std::string& override : overrides) {
    const std::size_t equals = override.find('=');
    if (equals == override.npos || equals == 0) {
      refuse(override, "expected section.key=value",
             "write one or several values, such as schedule.learning_rate=1e-4,3e-4");
    }
    const std::string key = override.substr(0, equals);
    if (!keys.insert(key).second) {
      refuse(override, "found the key a second time",
             "write all of its values once, such as train.seed=1,2,3");
    }
    const std::string_view text = std::string_view(override).substr(equals + 1);
    std::vector<std::string> values = range_values(override, text);
    if (values.empty()) values = split_values(text);
    if (values.size() > 1 && std::ranges::find(values, "") != values.end()) {
      refuse(override, "found an empty value", "remove one of the commas");
    }
    if (std::set<std::string>(values.begin(), values.end()).size() < values.size()) {
      refuse(override, "found a value twice", "write each value once");
    }
    if (values.size() == 1) {
      parsed.fixed.push_back(key + "=" + values.front());
    } else {
      parsed.axes.push_back({.key = key, .values = std::move(values)});
    }
  }
  return parsed;
}

std::vector<std::vector<std::string>> all_combinations(const std::vector<SweepAxis>& axes) {
  if (count_combinations(axes) > most_sweep_runs) {
    throw UsageError(
        fmt::format("found more than {} combinations of values, expected fewer", most_sweep_runs),
        "try fewer values, or draw some of the combinations with --samples");
  }
  std::vector<std::vector<std::string>> combinations(1);
  for (const SweepAxis& axis : axes) {
    std::vector<std::vector<std::string>> longer;
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

std::vector<std::vector<std::string>> sampled_combinations(const std::vector<SweepAxis>& axes,
                                                           std::size_t count, std::uint64_t seed) {
  RandomDraws random(seed, DrawPurpose::sweep_sample, 0);
  return count_combinations(axes) > most_sweep_runs ? sample_large_grid(axes, count, random)
                                                    : sample_small_grid(axes, count, random);
}

std::vector<SweepStage> sweep_stages(std::size_t runs, std::size_t factor, std::uint64_t steps,
                                     std::uint64_t validate_every) {
  if (factor == 0) return {{.step = steps, .runs = runs}};
  std::vector<std::size_t> sizes{runs};  // of the stages, if there are steps for so many
  while (sizes.back() > 1) sizes.push_back((sizes.back() + factor - 1) / factor);
  std::vector<std::uint64_t> ends;  // of the stages, the last one first
  for (std::uint64_t exact = steps; ends.size() < sizes.size(); exact /= factor) {
    const std::uint64_t validated =
        std::max<std::uint64_t>((exact + validate_every - 1) / validate_every, 1) * validate_every;
    const std::uint64_t end = std::min(validated, steps);
    if (!ends.empty() && end == ends.back()) break;
    ends.push_back(end);
  }
  std::vector<SweepStage> stages;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    stages.push_back({.step = ends[ends.size() - 1 - i], .runs = sizes[i]});
  }
  return stages;
}

}  // namespace tapestry
