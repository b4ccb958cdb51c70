#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/durability/power_failure.h"
#include "tests/durability/simulated_disk.h"
#include "train/base/error.h"
#include "train/checkpoint/checkpoint_file.h"
#include "train/checkpoint/run_directory.h"

/// Cuts the power after every change that a course of saves makes to its disk, in all the ways of
/// power_failure.h, and looks for the newest checkpoint. Two disks that lie about flushing show
/// that a save that did not flush would be found out.
///
///     power_loss [--full]      24 saves instead of 7, with more random choices
namespace tapestry {
namespace {

using test::DiskContent;
using test::SimulatedDisk;

constexpr const char* run_path = "run-on-a-simulated-disk";

struct Save {
  std::uint64_t step;
  std::uint64_t best_step;
  ArrayStore snapshot;
  std::size_t changes_before = 0, changes_after = 0;  ///< of the disk
};

/// Different for each number, and long enough for several blocks of 4,096 bytes.
ArrayStore snapshot_of(std::uint64_t number) {
  ArrayStore snapshot;
  const std::vector<float> weights(2000, static_cast<float>(number));
  snapshot.put<float>("parameters/weight", weights, {weights.size()});
  snapshot.put_scalar<std::uint64_t>("train/step", number);
  return snapshot;
}

/// Old checkpoints are pruned, the best one stays until there is a better one, and the run is taken
/// up again at an earlier step, so that a checkpoint is replaced.
std::vector<Save> saves_of(std::size_t count) {
  std::vector<Save> saves;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t step = 10 * (i + 1 - i / 6);
    const std::uint64_t best_step = i >= 4 ? 50 : std::min<std::uint64_t>(step, 20);
    saves.push_back({.step = step, .best_step = best_step, .snapshot = snapshot_of(i)});
  }
  return saves;
}

void carry_out(std::vector<Save>& saves, SimulatedDisk& disk) {
  RunDirectory directory(run_path, disk);
  directory.create();
  for (Save& save : saves) {
    save.changes_before = disk.changes().size();
    directory.save(save.step, save.snapshot, {.keep_last = 2, .steps = {save.best_step}});
    save.changes_after = disk.changes().size();
  }
}

struct Tally {
  std::size_t states = 0;
  std::size_t losses = 0;
  std::string first_loss{};
};

/// What must be found of a course of saves that was cut off after some number of changes.
class Expectation {
 public:
  Expectation(const std::vector<Save>& saves, std::size_t changes) {
    for (const Save& save : saves) {
      if (save.changes_after <= changes)
        completed_.push_back(&save);
      else if (save.changes_before < changes)
        begun_ = &save;
    }
  }

  /// Nothing, or what is wrong with what is left.
  std::string judge(const DiskContent& left) const {
    SimulatedDisk disk(left);
    const RunDirectory directory(run_path, disk);
    std::optional<NewestCheckpoint> newest;
    try {
      newest = directory.read_newest();
    } catch (const CheckpointError& error) {
      return error.what();
    }
    if (!newest) return completed_.empty() ? "" : "no checkpoint";
    const Save* found = save_of(*newest);
    if (found == nullptr) return fmt::format("step {} is not the newest", newest->step);
    return judge_older(directory, *found, disk);
  }

 private:
  /// The save that made a checkpoint, if it is the last completed one or the one that was cut off.
  const Save* save_of(const NewestCheckpoint& newest) const {
    const auto made = [&](const Save* save) {
      return save != nullptr && save->step == newest.step && save->snapshot == newest.arrays;
    };
    if (made(begun_)) return begun_;
    return !completed_.empty() && made(completed_.back()) ? completed_.back() : nullptr;
  }

  std::string judge_older(const RunDirectory& directory, const Save& newest,
                          SimulatedDisk& disk) const {
    std::size_t whole = 0;
    bool best = false;
    for (const std::uint64_t step : directory.steps()) {
      try {
        read_checkpoint(directory.checkpoint_path(step), 1 << 20, disk);
      } catch (const CheckpointError& error) {
        return error.what();
      }
      ++whole;
      best |= step == newest.best_step;
    }
    if (whole < std::min<std::size_t>(2, completed_.size())) return "a single checkpoint is left";
    return best || newest.step < newest.best_step ? "" : "the best checkpoint is gone";
  }

  std::vector<const Save*> completed_;
  const Save* begun_ = nullptr;
};

/// A run that finds these files goes on: leftovers are removed and the next save works.
std::string judge_going_on(const DiskContent& left, std::uint64_t next_step) {
  SimulatedDisk disk(left);
  RunDirectory directory(run_path, disk);
  directory.create();
  directory.remove_stray_temporaries();
  const ArrayStore next = snapshot_of(1000);
  directory.save(next_step, next, {.keep_last = 2});
  std::vector<std::string> names;
  disk.list((directory.path() / "checkpoints").c_str(), names);
  for (const std::string& name : names) {
    if (!name.starts_with("step-")) return name + " is left over";
  }
  return directory.read_newest()->arrays == next ? "" : "the next save is not the newest";
}

Tally try_all_failures(const std::vector<Save>& saves, const SimulatedDisk& disk,
                       const test::FailureSampling& sampling) {
  Tally tally;
  for (std::size_t changes = 0; changes <= disk.changes().size(); ++changes) {
    const Expectation expectation(saves, changes);
    bool nothing_lost = true;
    test::for_each_power_failure(std::span(disk.changes()).first(changes), sampling,
                                 [&](const DiskContent& left, const std::string& what) {
                                   std::string loss = expectation.judge(left);
                                   if (loss.empty() && nothing_lost)
                                     loss = judge_going_on(left, 1000);
                                   nothing_lost = false;
                                   ++tally.states;
                                   if (loss.empty()) return;
                                   if (tally.losses++ == 0) {
                                     tally.first_loss = fmt::format("after change {}, {}: {}",
                                                                    changes, what, loss);
                                   }
                                 });
  }
  return tally;
}

Tally try_disk(const char* name, SimulatedDisk disk, std::size_t save_count,
               const test::FailureSampling& sampling) {
  std::vector<Save> saves = saves_of(save_count);
  carry_out(saves, disk);
  const Tally tally = try_all_failures(saves, disk, sampling);
  fmt::print("{}: {} saves, {} changes, {} states of the disk, {} losses{}{}\n", name, save_count,
             disk.changes().size(), tally.states, tally.losses, tally.losses > 0 ? "; first: " : "",
             tally.first_loss);
  return tally;
}

int run(bool full) {
  const std::size_t saves = full ? 24 : 7;
  const test::FailureSampling sampling{.random_blocks = full ? std::size_t{200} : std::size_t{8}};
  const Tally honest = try_disk("a disk that flushes", {}, saves, sampling);

  const test::FailureSampling few{.random_blocks = 1, .max_name_states = 16};
  SimulatedDisk no_file_flushes, no_folder_flushes;
  no_file_flushes.ignores_file_flushes = true;
  no_folder_flushes.ignores_folder_flushes = true;
  const Tally files = try_disk("a disk that does not flush files", no_file_flushes, 3, few);
  const Tally folders = try_disk("a disk that does not flush folders", no_folder_flushes, 3, few);
  return honest.losses == 0 && files.losses > 0 && folders.losses > 0 ? 0 : 1;
}

}  // namespace
}  // namespace tapestry

int main(int argc, char** argv) {
  return tapestry::run(argc > 1 && std::string_view(argv[1]) == "--full");
}
