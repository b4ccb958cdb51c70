// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "train/checkpoint/run_directory.h"
#include "train/config/config.h"
#include "train/config/difference.h"
#include "train/config/keys.h"

/// Plans how to resume a run, and checks which keys of its config have changed.
///
///     const RunDirectory run = find_run("runs/copy");
///     ResumePlan plan =
///         plan_resume(run, *read_newest_of_run(run), {.overrides = {"train.steps=900"}});
///     // ... create a Trainer of plan.config, which resumes from plan.checkpoint.arrays
namespace tapestry {

/// The rule for a key such as `train.steps`; nullopt if the key does not exist.
std::optional<ChangeRule> change_rule(std::string_view key);

/// The differences between the config of a checkpoint and the config to resume with.
struct ConfigChanges {
  std::vector<ConfigDifference> free;     ///< in keys that may change freely
  std::vector<ConfigDifference> allowed;  ///< permitted by the user; recorded in the history
};

/// Classifies the differences by the ChangeRule of their keys.
///
/// run      name of the run in errors
/// allowed  keys that the user permits to change (--allow-change)
/// throws   ConfigError with a table of all rejected differences: key, checkpoint value, config
///          value and how to permit the change; ConfigError if `allowed` has an unknown key or a
///          key that can never change.
ConfigChanges sort_changes(const std::string& run, const std::vector<ConfigDifference>& differences,
                           const std::vector<std::string>& allowed);

/// The user's settings for a resumed run.
struct ResumeRequest {
  std::string config{};                  ///< path of a config file; empty for the saved config
  std::vector<std::string> overrides{};  ///< section.key=value
  std::vector<std::string> allowed{};    ///< keys that may change although they affect results
  bool keeps_run_dir = true;             ///< whether to ignore the config file's train.run_dir
};

/// The checkpoint to resume from and the config to resume with.
struct ResumePlan {
  NewestCheckpoint checkpoint;
  Config before{};  ///< the config of the checkpoint
  Config config{};
  ConfigChanges changes{};
  /// For a run that is resumed without a config file: a warning about keys whose values differ
  /// between its config.yaml and the checkpoint, and how to change these keys.
  std::optional<std::string> unused_file{};
};

/// Plans how to resume a run from its newest checkpoint. If the config has train.epochs, call
/// resolve_epochs() after loading the data, then require_allowed_changes() again.
///
/// throws  ConfigError like load_config() and require_allowed_changes(); CheckpointError if the
///         saved config cannot be used.
ResumePlan plan_resume(const RunDirectory& directory, NewestCheckpoint checkpoint,
                       const ResumeRequest& request);

/// Sets the changes of a plan. If train.epochs is not resolved yet, assumes that the number of
/// steps is unchanged.
///
/// throws  ConfigError like sort_changes(), and if train.steps was raised beyond the end of the
///         decay, where the learning rate is 0.
void require_allowed_changes(ResumePlan& plan, const ResumeRequest& request);

/// The reason why no steps are left to train, such as "12 of 12 steps"; empty if steps are left.
std::string reason_of_end(const ResumePlan& plan);

/// Whether no steps were left to train with the config of the checkpoint.
bool was_finished(const ResumePlan& plan);

/// Warnings about newer checkpoints that were skipped, and ResumePlan::unused_file.
std::vector<std::string> warnings_of(const ResumePlan& plan);

/// Changes that affect the results, one line each, for the log and the history: permitted changes
/// of the config, a reset optimizer state, a restarted epoch, or an arithmetic that differs from
/// the checkpoint's.
std::vector<std::string> describe_effects(const ResumePlan& plan);

}  // namespace tapestry
