// SPDX-License-Identifier: BSD-3-Clause
#include "train/checkpoint/open_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "data/io/near_name.h"
#include "data/io/utf8.h"
#include "train/base/error.h"
#include "train/base/format.h"
#include "train/base/program.h"
#include "train/checkpoint/average.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checkpoint_file.h"
#include "train/checkpoint/metrics.h"
#include "train/checkpoint/run_directory.h"
#include "train/checkpoint/run_id.h"
#include "train/config/config.h"
#include "train/config/load.h"
#include "train/system/standard_streams.h"

namespace tapestry {
namespace {

namespace fs = std::filesystem;

/// Rejects a checkpoint that does not belong to the run.
///
/// path    path of the checkpoint
/// step    the step in its file name
/// run_id  id of the run, if known
void require_of_run(const ArrayStore& arrays, const fs::path& path, std::uint64_t step,
                    const std::optional<std::string>& run_id) {
  if (const std::uint64_t found = saved_step(arrays); found != step) {
    throw UnusableCheckpoint(fmt::format("{}: found the checkpoint of step {}, expected step {} as "
                                         "in the file name",
                                         escaped(path.string()), found, step),
                             "give the file its original name");
  }
  const std::string found = saved_run_id(arrays);
  if (!run_id || found.empty() || found == *run_id) return;
  throw UnusableCheckpoint(
      fmt::format("{}: found a checkpoint of run {}, expected run {} as in config.yaml of the run "
                  "directory",
                  escaped(path.string()), found, *run_id),
      "move the checkpoint back to the directory of its run");
}

void warn_about(const std::string& damage) {
  warn(fmt::format("{}; another checkpoint of the run is used", damage));
}

/// Returns the average of the run's last checkpoints if it is better than the best checkpoint or if
/// no checkpoint was validated; otherwise nullopt.
///
/// best  best value of train.best_metric over the checkpoints; infinity without a validation
std::optional<ArrayStore> better_average(const RunDirectory& directory,
                                         const NewestCheckpoint& newest, double best) try {
  auto average = read_final_average(directory, newest.step);
  if (!average || !std::isfinite(best)) return average;
  const std::string metric = saved_config(*average).train.best_metric;
  const auto value = average->get_scalar<double>("train/best_loss");
  return is_better(metric, value, best) ? std::move(average) : std::nullopt;
} catch (const CheckpointError& error) {
  warn_about(error.what());
  return std::nullopt;
}

OpenedCheckpoint best_checkpoint(const RunDirectory& directory) {
  auto newest = read_newest_of_run(directory);
  if (!newest) {
    throw CheckpointError(fmt::format("{}: found no checkpoint, expected a run directory or a "
                                      "checkpoint file",
                                      escaped(directory.path().string())),
                          fmt::format("train first: {} train CONFIG", program_name()));
  }
  for (const auto& rejected : newest->rejected) warn_about(rejected.reason);
  const auto best_loss = newest->arrays.get_scalar<double>("train/best_loss");
  const auto best_step = newest->arrays.get_scalar<std::uint64_t>("train/best_step");
  if (auto average = better_average(directory, *newest, best_loss)) {
    return {directory.average_path(), *std::move(average),
            "the average of the run's last checkpoints"};
  }
  if (!std::isfinite(best_loss) || best_step == newest->step) {
    return {newest->path, std::move(newest->arrays), ""};
  }
  const auto path = directory.checkpoint_path(best_step);
  try {
    return {path, read_checkpoint_of_run(directory, best_step),
            fmt::format("the best checkpoint of the run; the newest is step {}", newest->step)};
  } catch (const CheckpointError& error) {
    warn_about(error.what());
    return {newest->path, std::move(newest->arrays), ""};
  }
}

}  // namespace

std::optional<NewestCheckpoint> read_newest_of_run(const RunDirectory& directory) {
  const auto run_id = recorded_run_id(directory);
  return directory.read_newest([&](std::uint64_t step, const ArrayStore& arrays) {
    require_of_run(arrays, directory.checkpoint_path(step), step, run_id);
  });
}

ArrayStore read_checkpoint_of_run(const RunDirectory& directory, std::uint64_t step) {
  const auto path = directory.checkpoint_path(step);
  ArrayStore arrays = read_checkpoint(path);
  require_of_run(arrays, path, step, recorded_run_id(directory));
  return arrays;
}

ArrayStore await_checkpoint_of_run(const RunDirectory& directory, std::uint64_t step,
                                   std::chrono::milliseconds timeout) {
  const auto end = std::chrono::steady_clock::now() + timeout;
  for (bool first = true;; first = false) {
    try {
      return read_checkpoint_of_run(directory, step);
    } catch (const UnusableCheckpoint& error) {
      if (std::chrono::steady_clock::now() >= end) throw;
      if (first) {
        warn(fmt::format(
            "{}\nwaiting up to {} s, since a network file system may show the checkpoint later",
            error.what(), std::chrono::ceil<std::chrono::seconds>(timeout).count()));
      }
    }
    std::this_thread::sleep_for(std::min(timeout, std::chrono::milliseconds(200)));
  }
}

std::string ModelOrigin::in_words() const {
  return escaped(choice.empty() ? place : fmt::format("{} ({})", place, choice));
}

namespace {

/// Whether a path names an existing file with the extension of a config.
bool is_config_file(const fs::path& path) {
  std::error_code ignored;
  return (path.extension() == ".yaml" || path.extension() == ".yml") &&
         fs::is_regular_file(path, ignored);
}

/// The run directory of a config file, even if the config is invalid.
std::string run_dir_of_config(const std::string& path) try {
  return load_config(path).train.run_dir;
} catch (const UserError&) {
  return default_run_dir(path);
}

/// The path of an existing run or file that was probably meant by a missing path.
std::optional<std::string> path_meant_by(const fs::path& path) {
  std::error_code ignored;
  const fs::path below = fs::path("runs") / path;
  if (fs::is_directory(below, ignored)) return below.string();
  const auto near = closest_path(path);
  return near ? near : closest_path(below);
}

}  // namespace

std::string hint_for_missing_run(const fs::path& path) {
  std::error_code ignored;
  std::optional<std::string> meant;
  if (is_config_file(path)) {
    meant = run_dir_of_config(path.string());
    if (!fs::is_directory(*meant, ignored)) {
      return fmt::format("train it first: {} train {}", program_name(),
                         format_argument(path.string()));
    }
  } else if (!fs::exists(path, ignored)) {
    meant = path_meant_by(path);
  }
  return meant ? fmt::format("did you mean {}?", escaped(*meant))
               : fmt::format("name a run directory; `{} runs` lists them", program_name());
}

OpenedCheckpoint open_run(const std::string& run) {
  std::error_code ignored;
  if (fs::is_directory(run, ignored)) return best_checkpoint(find_run(run));
  const bool is_config = is_config_file(run);
  if (is_config || fs::status(run, ignored).type() == fs::file_type::not_found) {
    throw CheckpointError(
        fmt::format("{}: {}", escaped(run),
                    is_config ? "found a config file, expected a run directory or a checkpoint"
                              : "cannot be read: No such file or directory"),
        hint_for_missing_run(run));
  }
  return {run, read_checkpoint(run), ""};
}

}  // namespace tapestry
