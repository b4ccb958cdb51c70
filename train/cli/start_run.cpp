#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "data/io/utf8.h"
#include "train/base/error.h"
#include "train/checkpoint/run_directory.h"
#include "train/cli/new_run.h"
#include "train/cli/train.h"
#include "train/config/config.h"
#include "train/models/pretrained.h"

namespace tapestry::train_cli {
namespace {

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

/// The directory of a new run. A run that it has is moved aside by claim(), once the data have been
/// read and everything has been checked, and not before.
class NewRunDirectory {
 public:
  /// fresh  move a run that the directory has aside, instead of refusing it
  NewRunDirectory(RunDirectory directory, bool fresh)
      : directory_(std::move(directory)), fresh_(fresh) {}

  const RunDirectory& directory() const { return directory_; }

  /// Refuses a directory that has other files, or a run that is not to be moved aside.
  void check() const {
    refuse_to_replace_files(directory_);
    if (!fresh_) refuse_to_replace_run(directory_);
  }

  /// Creates the folder of the cache, which is made before claim(): in the directory of a run that
  /// will be moved aside, whose own cache may serve the new run or is replaced. Deletes temporary
  /// files of crashes, which may be as large as the cache.
  void prepare_cache() {
    directory_.create();
    lock_.emplace(directory_.path());
    if (!fresh_) refuse_to_replace_run(directory_);
    directory_.remove_stray_temporaries();
    directory_.create_cache_folder();
  }

  /// Moves a run aside, but not its cache if prepare_cache() was called; creates and locks the
  /// directory. `claimed` is directory() or a copy.
  void claim(RunDirectory& claimed) {
    const bool has_cache = lock_.has_value();
    lock_.reset();
    const auto old = fresh_ ? move_aside(claimed) : std::nullopt;
    claimed.create();
    claimed.lock();
    // Checked again: another process may have created a run before the lock was taken.
    refuse_to_replace_run(claimed);
    if (!old || !has_cache) return;
    std::error_code ignored;  // the new run makes its cache again when it is resumed
    std::filesystem::rename(old->cache_folder(), claimed.cache_folder(), ignored);
  }

 private:
  RunDirectory directory_;
  bool fresh_;
  std::optional<RunLock> lock_;  ///< while the cache is made
};

}  // namespace

int start_run(const TrainArguments& arguments, TimeLimit::Clock::time_point started,
              ProcessGroup& group) {
  Config config = load_new_config(arguments.config, arguments.overrides);
  NewRunDirectory place(RunDirectory(config.train.run_dir), arguments.fresh);
  group.on_rank_0([&] { place.check(); });
  if (group.any_process(uses_cache(config.data)) && !arguments.dry_run) {
    group.on_rank_0([&] { place.prepare_cache(); });
    config.data.training.cache_folder = place.directory().cache_folder();
  }
  const InitialState initial =
      load_with_cache(config.data, group, [&] { return load_initial_state(config); });
  complete_new_config(arguments.config, initial.corpus, config);
  TrainingRun run =
      make_training_run(arguments, config, initial.corpus, place.directory(), started, group);
  run.load_state = [&](Trainer& trainer) {
    return initial.model ? trainer.computer().initialize(*initial.model)
                         : std::vector<std::string>();
  };
  run.claim_directory = [&](RunDirectory& claimed) { place.claim(claimed); };
  return run_training(run);
}

}  // namespace tapestry::train_cli
