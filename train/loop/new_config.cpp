// SPDX-License-Identifier: BSD-3-Clause
#include "train/loop/new_config.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "data/io/utf8.h"
#include "train/checkpoint/run_id.h"
#include "train/config/domain.h"
#include "train/config/error.h"
#include "train/config/fields.h"
#include "train/config/load.h"
#include "train/config/steps.h"
#include "train/config/text.h"
#include "train/tasks/task.h"
#include "train/tasks/task_data.h"

namespace tapestry {
namespace {

/// Rejects a copy of a run's config.yaml that still names the directory of that run.
void reject_copied_config(const std::string& path, const std::vector<std::string>& overrides,
                          const Config& config) {
  const std::string& run = config.train.run_dir;
  if (names_run_dir(overrides) || run == default_run_dir(path)) return;
  std::error_code ignored;
  const auto own = std::filesystem::path(run) / "config.yaml";
  if (std::filesystem::equivalent(own, path, ignored)) return;
  if (!read_run_id(path)) return;
  throw ConfigError(
      {{.place = {.file = path},
        .message = fmt::format("is a copy of the config of a run and still names the "
                               "directory of that run, {}, expected another directory",
                               run),
        .hint = "name a directory with train.run_dir=DIR, or delete run_dir from "
                "the copy"}});
}

/// Rejects paths that a checkpoint cannot store. The paths include the folder of the config file.
void require_storable_paths(const std::string& file, const Config& config) {
  for (const Field& field : fields_of(config)) {
    if (!field.domain.is_path()) continue;
    for_each_path(field.value, [&](const std::string& path) {
      const auto bad = find_bad_character(path, false);
      if (!bad) return;
      throw ConfigError({{.place = {.file = file},
                          .message = fmt::format(
                              "{}: found {} in the path {}, expected UTF-8 text without control "
                              "characters, since checkpoints store the path",
                              field.path(), bad->name, escaped(path)),
                          .hint = "rename the file or its folder"}});
    });
  }
}

/// Rejects a config that could not be read back from a checkpoint to resume the run.
void require_storable(const std::string& path, const Config& config) {
  try {
    parse_config(dump_config(config), "the stored config");
  } catch (const ConfigError& error) {
    require_storable_paths(path, config);
    const std::string problem = error.what();
    throw ConfigError({{.place = {.file = path},
                        .message = "the config could not be read back from a checkpoint: " +
                                   problem.substr(0, problem.find('\n')),
                        .hint = "rename files and folders whose names have control characters or "
                                "are not UTF-8"}});
  }
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

void require_validation_for_patience(const Config& config, const Corpus& corpus) {
  if (config.train.patience == 0 || !corpus.validation.empty()) return;
  throw ConfigError(
      {{.place = {.file = "train.patience"},
        .message = fmt::format("found {}, expected 0: it has no effect without validation {}",
                               config.train.patience, find_task(config).words(config).examples),
        .hint = "name a validation set or its size in the section data, or remove the key"}});
}

}  // namespace tapestry
