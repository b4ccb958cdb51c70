#include "train/checkpoint/open_run.h"

#include <fmt/format.h>

#include <cmath>
#include <system_error>
#include <utility>

#include "data/io/utf8.h"
#include "train/checkpoint/run_identity.h"
#include "train/error.h"
#include "train/platform/program_name.h"
#include "train/platform/standard_streams.h"
#include "train/storage/checkpoint_file.h"
#include "train/storage/run_directory.h"

namespace tapestry {
namespace {

void warn_about(const std::string& damage) {
  warn(fmt::format("{}; another checkpoint of the run is used", damage));
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
