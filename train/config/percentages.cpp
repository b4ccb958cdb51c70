#include "train/config/percentages.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "train/config/fields.h"
#include "train/format.h"

namespace tapestry {
namespace {

/// Calls visit(path, number) for every key that is a number of steps.
void for_each_step_count(Config& config,
                         const std::function<void(const std::string&, std::uint64_t&)>& visit) {
  for_each_field(config, [&](const Field& field, FieldValue& value, const Domain& domain) {
    if (domain.is<StepCount>()) visit(field.path(), std::get<std::uint64_t>(value));
  });
}
/// The same without changes.
void for_each_step_count(const Config& config,
                         const std::function<void(const std::string&, std::uint64_t)>& visit) {
  for_each_field(config, [&](const Field& field, const FieldValue& value, const Domain& domain) {
    if (domain.is<StepCount>()) visit(field.path(), std::get<std::uint64_t>(value));
  });
}

}  // namespace

void resolve_percentages(Config& config) {
  for_each_step_count(config, [&](const std::string& path, std::uint64_t& value) {
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
  for_each_step_count(before, [&](const std::string& path, std::uint64_t value) {
    if (std::ranges::find(allowed, path) == allowed.end()) numbers[path] = value;
  });
  for_each_step_count(config, [&](const std::string& path, std::uint64_t& value) {
    const auto found = config.step_percentages.find(path);
    if (found == config.step_percentages.end() || found->second.in_override) return;
    if (!numbers.contains(path)) return;
    value = numbers.at(path);
    config.step_percentages.erase(found);
  });
}

std::optional<std::string> describe_percentages(const Config& config) {
  std::vector<std::string> keys;
  for_each_step_count(config, [&](const std::string& path, std::uint64_t value) {
    const auto found = config.step_percentages.find(path);
    if (found == config.step_percentages.end()) return;
    keys.push_back(fmt::format("{} {}% = {}", path, found->second.percent, format_count(value)));
  });
  if (keys.empty()) return std::nullopt;
  return fmt::format("of {} steps: {}", format_count(config.train.steps), fmt::join(keys, ", "));
}

}  // namespace tapestry
