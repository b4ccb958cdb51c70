// SPDX-License-Identifier: BSD-3-Clause
#include "train/checkpoint/resume.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "data/io/error.h"
#include "data/io/near_name.h"
#include "data/io/utf8.h"
#include "train/base/error.h"
#include "train/base/format.h"
#include "train/base/program.h"
#include "train/checkpoint/arithmetic.h"
#include "train/checkpoint/checkpoint.h"
#include "train/config/error.h"
#include "train/config/fields.h"
#include "train/config/load.h"
#include "train/config/steps.h"
#include "train/config/synonyms.h"

namespace tapestry {
namespace {

using enum ChangeRule;

[[noreturn]] void reject_permission(const std::string& key, const std::string& message,
                                    const std::string& hint) {
  reject_option("--allow-change " + key, message, hint);
}

/// Rejects a `--allow-change` key that does not exist or can never change. Accepts the keys of data
/// files, which may change freely.
void check_permission(const std::string& key) {
  const auto rule = change_rule(key);
  if (!rule) {
    std::vector<std::string> keys;
    for (const ConfigKey& known : config_keys()) keys.push_back(known.section + "." + known.key);
    std::vector<std::string> meant = keys_meant_by(key.substr(key.find('.') + 1));
    if (const auto alike = closest(key, keys); alike && meant.empty()) meant = {*alike};
    for (std::string& path : meant) path = fmt::format("`{}`", path);
    reject_permission(key, "is not a config key",
                      meant.empty() ? "see configs/README.md"
                                    : fmt::format("did you mean {}?", list_in_words(meant)));
  }
  if (rule == never) {
    reject_permission(key, "cannot change: the saved state would be invalid",
                      "start a new run with it");
  }
}

std::string remedy(const ConfigDifference& difference) {
  if (change_rule(difference.key) == with_permission) return "--allow-change " + difference.key;
  return difference.key == "train.run_dir" ? "a run is resumed in its own directory"
                                           : "start a new run";
}

/// The arguments that give a key the value of the current config.
std::string arguments_for(const ConfigDifference& difference) {
  const auto rule = change_rule(difference.key);
  if (rule != free && rule != with_permission) return remedy(difference);
  std::string value = difference.current;
  if (value.size() > 1 && value.front() == '"') value = value.substr(1, value.size() - 2);
  value = fmt::format("{}={}", difference.key, format_argument(value));
  return rule == free ? value : value + " " + remedy(difference);
}

/// A text table with the columns key, checkpoint, config and how to change the key.
std::string table(const std::vector<ConfigDifference>& differences, const char* config_name,
                  std::string (*how)(const ConfigDifference&)) {
  // Column widths, at least the widths of the headings.
  std::size_t key = 3, checkpoint = 10, config = std::string_view(config_name).size();
  for (const ConfigDifference& row : differences) {
    key = std::max(key, row.key.size());
    checkpoint = std::max(checkpoint, row.checkpoint.size());
    config = std::max(config, row.current.size());
  }
  const auto line = [&](std::string_view a, std::string_view b, std::string_view c,
                        std::string_view d) {
    return fmt::format("\n  {:<{}}  {:<{}}  {:<{}}  {}", a, key, b, checkpoint, c, config, d);
  };
  std::string text = line("key", "checkpoint", config_name, "to change it");
  for (const ConfigDifference& row : differences) {
    text += line(row.key, row.checkpoint, row.current, how(row));
  }
  return text;
}

bool is_allowed(const ResumeRequest& request, const std::string& key) {
  return std::ranges::find(request.allowed, key) != request.allowed.end();
}

/// The config to resume with: a config file or the saved config, plus overrides.
Config config_to_resume_with(const ResumeRequest& request, const Config& before) {
  if (request.config.empty()) {
    // A renamed run directory may have a name that a config cannot contain.
    Config stored = before;
    stored.train.run_dir.clear();
    Config config =
        parse_config(dump_config(stored), "config of the checkpoint", request.overrides);
    if (config.train.run_dir.empty()) config.train.run_dir = before.train.run_dir;
    return config;
  }
  Config config = load_config(request.config, request.overrides);
  if (request.keeps_run_dir) config.train.run_dir = before.train.run_dir;
  keep_resolved_percentages(config, before, request.allowed);
  // decay_steps 0 means train.steps. The saved config stores the original train.steps instead of 0.
  const bool new_decay =
      config.schedule.kind == ScheduleKind::cosine && is_allowed(request, "schedule.decay_steps");
  if (config.schedule.decay_steps == 0 && !new_decay) {
    config.schedule.decay_steps = before.schedule.decay_steps;
  }
  return config;
}

/// Whether the learning rate is 0 after the end of the decay.
bool decays_to_0(const ScheduleOptions& schedule) {
  return schedule.kind == ScheduleKind::cosine && schedule.min_learning_rate == 0.0;
}

/// throws  ConfigError if train.steps was raised beyond the end of the decay, where the learning
///         rate is 0.
void require_longer_decay(const std::string& run, const Config& before, const Config& config) {
  const ScheduleOptions& schedule = config.schedule;
  const std::size_t steps = config.train.steps;
  const std::size_t end = schedule.decay_steps;  // 0 means train.steps
  const bool new_decay =
      schedule.kind != before.schedule.kind || end != before.schedule.decay_steps;
  if (!decays_to_0(schedule) || new_decay || end == 0 || end >= steps ||
      steps <= before.train.steps)
    return;
  throw ConfigError(
      {{.place = {.file = run},
        .message = fmt::format("train.steps is raised from {} to {}, but the learning rate reaches "
                               "0 at step {} (schedule.decay_steps) and would stay 0",
                               before.train.steps, steps, end),
        .hint =
            fmt::format("set a new end of the decay with schedule.decay_steps={} --allow-change "
                        "schedule.decay_steps, or a minimum above 0 with "
                        "schedule.min_learning_rate=RATE --allow-change "
                        "schedule.min_learning_rate",
                        steps)}});
}

/// A warning that config.yaml of the run directory differs from the checkpoint in keys that the
/// request does not change. The run uses the config of the checkpoint.
std::optional<std::string> warning_about_file(const ResumePlan& plan) {
  const auto file = std::filesystem::path(plan.before.train.run_dir) / "config.yaml";
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return std::nullopt;
  const std::string name = escaped(file.string());
  try {
    Config written = load_config(file.string());
    written.train.run_dir = plan.before.train.run_dir;
    // Replaces 0, which means train.steps, as in config_to_resume_with().
    if (written.schedule.decay_steps == 0) {
      written.schedule.decay_steps = plan.before.schedule.decay_steps;
    }
    auto differences = compare_configs(with_process_settings(plan.before, written), written);
    const auto requested = compare_configs(plan.before, plan.config);
    std::erase_if(differences, [&](const ConfigDifference& each) {
      return std::ranges::find(requested, each.key, &ConfigDifference::key) != requested.end();
    });
    if (differences.empty()) return std::nullopt;
    return fmt::format("{} is not used: the run continues with the config of its checkpoint{}",
                       name, table(differences, "config.yaml", arguments_for));
  } catch (const ConfigError& error) {
    const std::string_view problem = error.what();
    return fmt::format(
        "{} is not used: the run continues with the config of its checkpoint; the file has an "
        "error: {}",
        name, problem.substr(0, problem.find('\n')));
  }
}

}  // namespace

std::optional<ChangeRule> change_rule(std::string_view key) {
  const std::optional<Field> field = find_field(key);
  return field ? std::optional(field->policy.change) : std::nullopt;
}

ConfigChanges sort_changes(const std::string& run, const std::vector<ConfigDifference>& differences,
                           const std::vector<std::string>& allowed) {
  for (const std::string& key : allowed) check_permission(key);
  ConfigChanges changes;
  std::vector<ConfigDifference> rejected;
  for (const ConfigDifference& difference : differences) {
    const auto rule = change_rule(difference.key);
    const bool is_permitted = std::ranges::find(allowed, difference.key) != allowed.end();
    if (rule == free) {
      changes.free.push_back(difference);
    } else if (rule == with_permission && is_permitted) {
      changes.allowed.push_back(difference);
    } else {
      rejected.push_back(difference);
    }
  }
  if (!rejected.empty()) {
    throw ConfigError({{.place = {.file = run},
                        .message = "the config differs from the checkpoint in keys that affect "
                                   "the run" +
                                   table(rejected, "config", remedy),
                        .hint = "resume with the saved config, or follow the last column"}});
  }
  return changes;
}

ResumePlan plan_resume(const RunDirectory& directory, NewestCheckpoint checkpoint,
                       const ResumeRequest& request) {
  ResumePlan plan{.checkpoint = std::move(checkpoint)};
  plan.before = saved_config(plan.checkpoint.arrays);
  plan.before.train.run_dir = directory.path().string();
  plan.config = config_to_resume_with(request, plan.before);
  require_allowed_changes(plan, request);
  if (request.config.empty()) plan.unused_file = warning_about_file(plan);
  return plan;
}

void require_allowed_changes(ResumePlan& plan, const ResumeRequest& request) {
  const Config& before = plan.before;
  Config config = plan.config;
  if (config.train.epochs != 0) config.train.steps = before.train.steps;
  config.train.epochs = 0;
  const bool follows_steps =
      config.schedule.kind == ScheduleKind::cosine && config.schedule.decay_steps == 0;
  if (follows_steps) config.schedule.decay_steps = config.train.steps;
  Config process = config;
  process.train.run_dir = before.train.run_dir;
  plan.changes = sort_changes(before.train.run_dir,
                              compare_configs(with_process_settings(before, process), config),
                              request.allowed);
  require_longer_decay(before.train.run_dir, before, config);
}

namespace {

std::string reason_of_end(const NewestCheckpoint& checkpoint, const Config& config) {
  const TrainOptions& options = config.train;
  if (has_pending_validation(checkpoint.arrays) || options.epochs != 0) return "";
  if (checkpoint.step >= options.steps) {
    const std::string done = format_count(checkpoint.step);
    const std::string steps = format_count(options.steps);
    const bool is_decayed =
        decays_to_0(config.schedule) && config.schedule.decay_steps <= options.steps;
    return fmt::format(
        "{}; to continue, set a larger train.steps=N{}",
        checkpoint.step == options.steps
            ? fmt::format("{} of {} steps", done, steps)
            : fmt::format("it has done {} steps, and train.steps is {}", done, steps),
        is_decayed ? " with schedule.decay_steps=N --allow-change schedule.decay_steps" : "");
  }
  const std::uint64_t without_best = validations_since_best(checkpoint.arrays);
  if (options.patience > 0 && without_best >= options.patience) {
    return fmt::format(
        "{} validations without improvement; to continue, set a larger train.patience=N",
        without_best);
  }
  return "";
}

}  // namespace

std::string reason_of_end(const ResumePlan& plan) {
  return reason_of_end(plan.checkpoint, plan.config);
}

bool was_finished(const ResumePlan& plan) {
  return !reason_of_end(plan.checkpoint, plan.before).empty();
}

std::vector<std::string> warnings_of(const ResumePlan& plan) {
  std::vector<std::string> warnings;
  for (const auto& rejected : plan.checkpoint.rejected) {
    warnings.push_back(fmt::format("{}; an older checkpoint is used", rejected.reason));
  }
  if (plan.unused_file) warnings.push_back(*plan.unused_file);
  return warnings;
}

std::vector<std::string> describe_effects(const ResumePlan& plan) {
  std::vector<std::string> effects;
  for (const ConfigDifference& change : plan.changes.allowed) {
    effects.push_back("changed " + to_string(change));
  }
  if (!continues_state(plan.before.optimizer, plan.config.optimizer)) {
    effects.emplace_back("the optimizer state is reset");
  }
  if (has_other_batches(plan.before, plan.config)) {
    effects.emplace_back("continues with the first batch of an epoch");
  }
  const std::string before = saved_arithmetic(plan.checkpoint.arrays);
  if (!before.empty() && before != arithmetic()) {
    effects.push_back(
        fmt::format("changed arithmetic: {} -> {}; results will differ from a run without the "
                    "change",
                    before, arithmetic()));
  }
  return effects;
}

}  // namespace tapestry
