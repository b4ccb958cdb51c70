#include "train/config/percentages.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <type_traits>

#include "train/config/fields.h"
#include "train/format.h"

namespace tapestry {
namespace {

/// Calls visit(path, number) for every key that is a number of steps.
template <MaybeConst<Config> C>
void for_each_step_count(C& config, auto&& visit) {
  for_each_field(config, [&]<class T, class Domain>(const Field& field, T& value, const Domain&) {
    if constexpr (std::is_same_v<Domain, StepCount>) visit(field.path(), value);
  });
}

}  // namespace

void resolve_percentages(Config& config) {
  for_each_step_count(config, [&](const std::string& path, std::size_t& value) {
    const auto found = config.step_percentages.find(path);
    if (found == config.step_percentages.end()) return;
    const double steps = found->second.percent * static_cast<double>(config.train.steps) / 100.0;
    const bool may_be_0 =
        path == "schedule.warmup_steps" && config.schedule.kind == ScheduleKind::cosine;
    value = std::max<std::size_t>(static_cast<std::size_t>(std::llround(steps)), may_be_0 ? 0 : 1);
  });
}

void keep_resolved_percentages(Config& config, const Config& before,
                               const std::vector<std::string>& allowed) {
  if (config.schedule.kind != before.schedule.kind) return;
  std::map<std::string, std::size_t> numbers;
  for_each_step_count(before, [&](const std::string& path, std::size_t value) {
    if (std::ranges::find(allowed, path) == allowed.end()) numbers[path] = value;
  });
  for_each_step_count(config, [&](const std::string& path, std::size_t& value) {
    const auto found = config.step_percentages.find(path);
    if (found == config.step_percentages.end() || found->second.in_override) return;
    if (!numbers.contains(path)) return;
    value = numbers.at(path);
    config.step_percentages.erase(found);
  });
}

std::optional<std::string> describe_percentages(const Config& config) {
  std::vector<std::string> keys;
  for_each_step_count(config, [&](const std::string& path, std::size_t value) {
    const auto found = config.step_percentages.find(path);
    if (found == config.step_percentages.end()) return;
    keys.push_back(fmt::format("{} {}% = {}", path, found->second.percent, format_count(value)));
  });
  if (keys.empty()) return std::nullopt;
  return fmt::format("of {} steps: {}", format_count(config.train.steps), fmt::join(keys, ", "));
}

}  // namespace tapestry
