#include "train/loop/new_run.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "data/io/utf8.h"
#include "train/base/error.h"
#include "train/base/format.h"
#include "train/base/program.h"
#include "train/checkpoint/open_run.h"
#include "train/config/config.h"
#include "train/config/error.h"
#include "train/config/rules.h"
#include "train/recording/event_log.h"
#include "train/tasks/task.h"
#include "train/tasks/task_data.h"

namespace tapestry {
namespace {

/// Rejects the copy of the config of a run, which names the directory of that run.
void reject_copied_config(const std::string& path, const std::vector<std::string>& overrides,
                          const Config& config) {
  const std::string& run = config.train.run_dir;
  if (names_run_dir(overrides) || run == default_run_dir(path)) return;
  std::error_code ignored;
  const auto own = std::filesystem::path(run) / "config.yaml";
  if (std::filesystem::equivalent(own, path, ignored)) return;
  if (!read_run_id(path)) return;
  throw ConfigError({{.place = {.file = path},
                      .message = fmt::format("is a copy of the config of a run and names the "
                                             "directory of that run, {}, expected another one",
                                             run),
                      .hint = "name a directory with train.run_dir=DIR, or delete run_dir from "
                              "the copy"}});
}

/// Rejects a config that could not be read back from a checkpoint, from which the run could then
/// not be resumed.
void require_storable(const std::string& path, const Config& config) {
  try {
    parse_config(dump_config(config), "the stored config");
  } catch (const ConfigError& error) {
    if (const auto bad = find_unstorable_path(config)) {
      throw ConfigError({{.place = {.file = path},
                          .message = fmt::format(
                              "{}: found {} in the path {}, expected UTF-8 text without control "
                              "characters, which can be stored in a checkpoint",
                              bad->key, bad->found, escaped(bad->path)),
                          .hint = "rename the file, or the folder that it is in"}});
    }
    const std::string problem = error.what();
    throw ConfigError({{.place = {.file = path},
                        .message = "the config could not be read back from a checkpoint: " +
                                   problem.substr(0, problem.find('\n')),
                        .hint = "rename files and folders whose names have control characters or "
                                "are not UTF-8"}});
  }
}

/// Moves the run in the directory aside, if there is one, and returns its new directory.
std::optional<RunDirectory> move_aside(const RunDirectory& directory) {
  if (directory.steps().empty()) return std::nullopt;
  const RunLock lock(directory.path());
  std::string path = directory.path().string();
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  std::size_t number = 1;
  while (std::filesystem::exists(fmt::format("{}.old-{}", path, number))) ++number;
  const std::string aside = fmt::format("{}.old-{}", path, number);
  std::error_code error;
  std::filesystem::rename(path, aside, error);
  if (error) {
    throw OutputError(
        fmt::format("{}: could not move the run aside: {}", escaped(path), error.message()),
        "choose another train.run_dir");
  }
  return RunDirectory(aside);
}

}  // namespace

Config load_new_config(const std::string& path, const std::vector<std::string>& overrides) {
  Config config = load_config(path, overrides);
  reject_copied_config(path, overrides, config);
  apply_process_settings(config.train);
  return config;
}

void complete_new_config(const std::string& path, const Corpus& corpus, Config& config) {
  if (config.train.epochs != 0) {
    resolve_epochs(config, make_batch_schedule(corpus, config).batches_per_epoch());
  }
  require_storable(path, config);
  require_validation_for_patience(config, corpus);
}

void require_validation_for_patience(const Config& config, const Corpus& corpus) {
  if (config.train.patience == 0 || !corpus.validation.empty()) return;
  throw ConfigError(
      {{.place = {.file = "train.patience"},
        .message = fmt::format("found {}, expected 0: there are no validation {}, without which it "
                               "has no effect",
                               config.train.patience, find_task(config).words(config).examples),
        .hint = "name a validation set or its size in the section data, or leave the key out"}});
}

void require_work_for_all(std::size_t processes, const Config& config) {
  if (config.train.accumulate >= processes) return;
  throw ConfigError(
      {{.place = {.file = "train.accumulate"},
        .message = fmt::format("found {}, expected at least {}, the number of processes, which "
                               "divide the batches of a step",
                               config.train.accumulate, processes),
        .hint = fmt::format("start fewer processes, or set train.accumulate={0} and divide "
                            "train.batch_size by {0}",
                            processes)}});
}

void require_no_run(const RunDirectory& directory) {
  const auto steps = directory.steps();
  if (steps.empty()) return;
  const std::string path = directory.path().string();
  throw ConfigError(
      {{.place = {.file = path},
        .message = fmt::format("already contains a run, at step {}", format_count(steps.back())),
        .hint = fmt::format("resume it with `{} train --resume {}`, start over with --fresh (the "
                            "old run is moved aside) or choose another train.run_dir",
                            program_name(), format_argument(path))}});
}

void require_no_files(const RunDirectory& directory) {
  std::error_code ignored;
  if (std::filesystem::is_directory(directory.path() / "checkpoints", ignored)) return;
  for (const char* name :
       {"config.yaml", "metrics.csv", events_file_name, "average.h5", "train.log"}) {
    const auto path = directory.path() / name;
    if (!std::filesystem::exists(path, ignored)) continue;
    throw ConfigError({{.place = {.file = path.string()},
                        .message = "exists and is not part of a run; a run here would overwrite it",
                        .hint = "choose another train.run_dir"}});
  }
  for (const auto& entry : std::filesystem::directory_iterator(directory.path(), ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with('.')) continue;  // such as .gitkeep
    throw ConfigError({{.place = {.file = directory.path().string()},
                        .message = fmt::format("holds other files, such as {}, and is not the "
                                               "directory of a run, expected a new or an empty one",
                                               name),
                        .hint = "choose another train.run_dir"}});
  }
}

NewRun::NewRun(Config config, const RunOptions& options, ProcessGroup& group)
    : config_(std::move(config)), fresh_(options.fresh), directory_(config_.train.run_dir) {
  group.on_rank_0([this] {
    require_no_files(directory_);
    if (!fresh_) require_no_run(directory_);
  });
  if (group.any_process(uses_cache(config_.data)) && !options.dry_run) {
    group.on_rank_0([this] { prepare_cache(); });
    config_.data.training.cache_folder = directory_.cache_folder();
  }
  initial_ = load_with_cache(config_.data, group, [this] { return load_initial_state(config_); });
  complete_new_config(options.config.empty() ? "config" : options.config, initial_.corpus, config_);
}

/// Creates the folder of the cache: in the directory of a run that will be moved aside, whose cache
/// may serve the new run or is replaced. Deletes temporary files of crashes, which may be as large
/// as the cache.
void NewRun::prepare_cache() {
  directory_.create();
  lock_.emplace(directory_.path());
  if (!fresh_) require_no_run(directory_);
  directory_.remove_stray_temporaries();
  directory_.create_cache_folder();
}

void NewRun::claim_directory() {
  const bool has_cache = lock_.has_value();
  lock_.reset();
  const auto old = fresh_ ? move_aside(directory_) : std::nullopt;
  directory_.create();
  directory_.lock();
  // Checked again: another process may have created a run before the lock was taken.
  require_no_run(directory_);
  if (!old || !has_cache) return;
  std::error_code ignored;  // the new run makes its cache again when it is resumed
  std::filesystem::rename(old->cache_folder(), directory_.cache_folder(), ignored);
}

}  // namespace tapestry
