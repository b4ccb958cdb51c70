#include "train/commands/open_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "train/checkpoint_file.h"
#include "train/error.h"
#include "train/run_directory.h"

namespace tapestry {
namespace {

OpenedCheckpoint best_of(const RunDirectory& directory) {
  auto newest = directory.read_newest();
  if (!newest) {
    throw CheckpointError(fmt::format("{}: holds no checkpoint, expected a run directory or a "
                                      "checkpoint file",
                                      directory.path().string()),
                          "train first: tapestry train CONFIG");
  }
  for (const auto& [path, reason] : newest->rejected) {
    fmt::print(stderr, "tapestry: warning: {}: passed over: {}\n", path.string(), reason);
  }
  const auto best_loss = newest->snapshot.get_scalar<double>("train/best_loss");
  const auto best_step = newest->snapshot.get_scalar<std::uint64_t>("train/best_step");
  if (!std::isfinite(best_loss) || best_step == newest->step) {
    return {newest->path, std::move(newest->snapshot)};
  }
  const auto path = directory.checkpoint_path(best_step);
  return {path, read_checkpoint(path)};
}

}  // namespace

OpenedCheckpoint open_run(const std::string& run) {
  if (std::filesystem::is_directory(run)) return best_of(RunDirectory(run));
  return {run, read_checkpoint(run)};
}

}  // namespace tapestry
