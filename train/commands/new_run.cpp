#include "train/commands/new_run.h"

#include <fmt/format.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <system_error>

#include "train/config/error.h"
#include "train/error.h"
#include "train/format.h"
#include "train/storage/run_lock.h"

namespace tapestry {

void refuse_to_replace_run(const RunDirectory& directory) {
  const auto steps = directory.steps();
  if (steps.empty()) return;
  const std::string path = directory.path().string();
  throw ConfigError(
      {{.place = {.file = path},
        .message = fmt::format("a run lies there already, at step {}", format_count(steps.back())),
        .hint = fmt::format("go on with `tapestry train --resume {}`, start anew with --fresh (the "
                            "old run is moved aside) or choose another train.run_dir",
                            path)}});
}

void refuse_to_replace_files(const RunDirectory& directory) {
  std::error_code ignored;
  if (std::filesystem::is_directory(directory.path() / "checkpoints", ignored)) return;
  for (const char* name : {"config.yaml", "metrics.csv", "train.log"}) {
    const auto path = directory.path() / name;
    if (!std::filesystem::exists(path, ignored)) continue;
    throw ConfigError({{.place = {.file = path.string()},
                        .message = "is not of a run, and a run there would replace it",
                        .hint = "choose another train.run_dir"}});
  }
}

void move_aside(const RunDirectory& directory) {
  if (directory.steps().empty()) return;
  const RunLock lock(directory.path());
  std::string path = directory.path().string();
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  std::size_t number = 1;
  while (std::filesystem::exists(fmt::format("{}.old-{}", path, number))) ++number;
  std::error_code error;
  std::filesystem::rename(path, fmt::format("{}.old-{}", path, number), error);
  if (error) {
    throw OutputError(fmt::format("{}: could not move the run aside: {}", path, error.message()),
                      "choose another train.run_dir");
  }
}

}  // namespace tapestry
