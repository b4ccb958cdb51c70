#include "train/checkpoint/open_run.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <system_error>
#include <utility>

#include "data/io/utf8.h"
#include "train/checkpoint/average.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/run_identity.h"
#include "train/error.h"
#include "train/metrics.h"
#include "train/platform/program_name.h"
#include "train/platform/standard_streams.h"
#include "train/storage/checkpoint_file.h"
#include "train/storage/run_directory.h"

namespace tapestry {
namespace {

void warn_about(const std::string& damage) {
  warn(fmt::format("{}; another checkpoint of the run is used", damage));
}

/// The average with which the run has ended, if it is to be used: its validation was better than
/// `best`, or there is no validation.
///
/// best  the best value of train.best_metric of the checkpoints; infinity if there is none
std::optional<Snapshot> better_average(const RunDirectory& directory,
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
    throw CheckpointError(fmt::format("{}: holds no checkpoint, expected a run directory or a "
                                      "checkpoint file",
                                      escaped(directory.path().string())),
                          fmt::format("train first: {} train CONFIG", program_name()));
  }
  for (const auto& rejected : newest->rejected) warn_about(rejected.reason);
  const auto best_loss = newest->snapshot.get_scalar<double>("train/best_loss");
  const auto best_step = newest->snapshot.get_scalar<std::uint64_t>("train/best_step");
  if (auto average = better_average(directory, *newest, best_loss)) {
    return {directory.average_path(), *std::move(average),
            "the average of the last checkpoints of the run"};
  }
  if (!std::isfinite(best_loss) || best_step == newest->step) {
    return {newest->path, std::move(newest->snapshot), ""};
  }
  const auto path = directory.checkpoint_path(best_step);
  try {
    return {path, read_checkpoint_of_run(directory, best_step),
            fmt::format("the best of the run, whose newest is step {}", newest->step)};
  } catch (const CheckpointError& error) {
    warn_about(error.what());
    return {newest->path, std::move(newest->snapshot), ""};
  }
}

}  // namespace

std::string ModelOrigin::in_words() const {
  return escaped(choice.empty() ? place : fmt::format("{} ({})", place, choice));
}

OpenedCheckpoint open_run(const std::string& run) {
  std::error_code ignored;
  if (std::filesystem::is_directory(run, ignored)) return best_checkpoint(find_run(run));
  return {run, read_checkpoint(run), ""};
}

}  // namespace tapestry
