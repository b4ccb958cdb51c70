// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/durability/simulated_disk.h"
#include "train/base/error.h"
#include "train/checkpoint/checkpoint_file.h"
#include "train/checkpoint/run_directory.h"

/// Simulates a power failure after every change that a series of saves makes to a disk, with all
/// outcomes of for_each_power_failure(), and checks the newest checkpoint. Two disks that ignore
/// flushes show that the test would detect missing flushes.
///
///     power_loss [--full]      24 saves instead of 7, with more random choices
namespace tapestry {
namespace {

using test::apply;
using test::Bytes;
using test::DiskChange;
using test::DiskContent;
using test::folder_of;
using test::SimulatedDisk;
using Kind = DiskChange::Kind;

// ---- States after a power failure.

/// The number of states to check after a power failure.
struct FailureSampling {
  std::size_t random_blocks = 8;       ///< random sets of surviving blocks per file
  std::size_t max_name_states = 1024;  ///< if there are more states of names, checks random states
  std::uint64_t seed = 1;
};

bool is_name(const DiskChange& change) {
  return change.kind == Kind::put_name || change.kind == Kind::drop_name;
}

/// Whether `flush` makes the earlier change `change` durable.
bool covers(const DiskChange& flush, const DiskChange& change) {
  if (flush.kind == Kind::flush_folder)
    return is_name(change) && folder_of(change.path) == flush.path;
  return flush.kind == Kind::flush_file && change.kind == Kind::write && change.file == flush.file;
}

/// A possible outcome for unflushed data of a file.
struct DataFate {
  std::string what;
  std::size_t block = 512;
  std::function<bool(std::size_t number)> keeps;
  std::size_t blocks_left =
      std::numeric_limits<std::size_t>::max();  ///< size of the file in blocks
};

/// The bytes of a file after a power failure.
///
/// before  flushed bytes
/// after   bytes after all writes
Bytes suffer(const DataFate& fate, const Bytes& before, const Bytes& after) {
  Bytes left = before;
  left.resize(std::max(before.size(), after.size()));
  for (std::size_t number = 0; number * fate.block < after.size(); ++number) {
    if (!fate.keeps(number)) continue;
    const std::size_t begin = number * fate.block;
    const std::size_t size = std::min(fate.block, after.size() - begin);
    std::copy_n(after.begin() + static_cast<std::ptrdiff_t>(begin), size,
                left.begin() + static_cast<std::ptrdiff_t>(begin));
  }
  if (fate.blocks_left < left.size() / fate.block) left.resize(fate.blocks_left * fate.block);
  return left;
}

/// All outcomes for files of at most `size` bytes. The first outcome loses no data.
std::vector<DataFate> data_fates(std::size_t size, const FailureSampling& sampling) {
  std::vector<DataFate> fates{{.what = "data kept", .keeps = [](std::size_t) { return true; }}};
  if (size == 0) return fates;
  fates.push_back({.what = "data dropped", .keeps = [](std::size_t) { return false; }});
  fates.push_back({.what = "data and length dropped",
                   .keeps = [](std::size_t) { return false; },
                   .blocks_left = 0});
  for (const std::size_t block : {512, 4096}) {
    for (std::size_t n = 0; n * block < size; ++n) {
      const auto add = [&](const char* what, std::function<bool(std::size_t)> keeps,
                           std::size_t left = std::numeric_limits<std::size_t>::max()) {
        fates.push_back(
            {fmt::format("{} {} of {} bytes", what, n, block), block, std::move(keeps), left});
      };
      add(
          "file ends at block", [n](std::size_t i) { return i < n; }, n);
      add("data torn at block", [n](std::size_t i) { return i < n; });
      add("data lost of block", [n](std::size_t i) { return i != n; });
      add("data kept only from block", [n](std::size_t i) { return i >= n; });
    }
  }
  for (std::size_t k = 0; k < sampling.random_blocks; ++k) {
    fates.push_back({.what = fmt::format("random blocks kept, {}", k), .keeps = [=](std::size_t i) {
                       return std::mt19937_64(sampling.seed + 1000 * k + i)() % 2 == 0;
                     }});
  }
  return fates;
}

/// The changes before a power failure, divided into flushed and unflushed changes.
class Failure {
 public:
  Failure(std::span<const DiskChange> changes, const FailureSampling& sampling)
      : sampling_(sampling) {
    for (std::size_t i = 0; i < changes.size(); ++i) {
      const auto later = changes.subspan(i + 1);
      const bool flushed =
          std::ranges::any_of(later, [&](const auto& flush) { return covers(flush, changes[i]); });
      if (is_name(changes[i])) {
        names_.push_back({&changes[i], flushed});
        if (!flushed) ++open_names_;
      } else if (changes[i].kind == Kind::write) {
        add_data(changes[i], flushed);
      }
    }
  }

  void visit_all(const std::function<void(const DiskContent&, const std::string&)>& visit) const {
    for (const DataFate& fate : data_fates(bytes_at_stake(), sampling_)) {
      DiskContent content{.names = {}, .files = files_after(fate)};
      visit_names(content, fate.what, visit);
    }
  }

 private:
  struct Name {
    const DiskChange* change;
    bool flushed;
  };

  void add_data(const DiskChange& change, bool flushed) {
    apply(change, after_);
    if (flushed) apply(change, flushed_);
    at_stake_[change.file] |= !flushed;
  }

  std::size_t bytes_at_stake() const {
    std::size_t most = 0;
    for (const auto& [file, at_stake] : at_stake_) {
      if (at_stake) most = std::max(most, after_.files.at(file).size());
    }
    return most;
  }

  std::map<std::size_t, Bytes> files_after(const DataFate& fate) const {
    std::map<std::size_t, Bytes> files = after_.files;
    for (auto& [file, bytes] : files) {
      if (!at_stake_.at(file)) continue;
      const auto before = flushed_.files.find(file);
      bytes = suffer(fate, before == flushed_.files.end() ? Bytes{} : before->second, bytes);
    }
    return files;
  }

  void visit_names(DiskContent& content, const std::string& fate,
                   const std::function<void(const DiskContent&, const std::string&)>& visit) const {
    const std::size_t bits = std::min<std::size_t>(open_names_, 63);
    const bool all = std::uint64_t{1} << bits <= sampling_.max_name_states;
    const std::size_t states = all ? std::size_t{1} << bits : sampling_.max_name_states;
    std::mt19937_64 random(sampling_.seed);
    for (std::size_t state = 0; state < states; ++state) {
      const std::uint64_t lost = all || state == 0 ? state : random() % (std::uint64_t{1} << bits);
      set_names(lost, content);
      visit(content, fmt::format("{}, names lost {:#b} of {}", fate, lost, open_names_));
    }
  }

  /// lost  bit i % 64: whether the i-th unflushed change of a name is lost
  void set_names(std::uint64_t lost, DiskContent& content) const {
    content.names.clear();
    std::size_t open = 0;
    for (const Name& name : names_) {
      const bool is_lost = !name.flushed && (lost >> (open++ % 64) & 1) != 0;
      if (!is_lost) apply(*name.change, content);
    }
    drop_names_without_folder(content);
    for (const auto& [path, entry] : content.names) {
      if (!entry.is_folder) content.files[entry.file];
    }
  }

  static void drop_names_without_folder(DiskContent& content) {
    std::set<std::string> folders{"."};
    for (auto name = content.names.begin(); name != content.names.end();) {
      // A folder sorts before its content.
      if (!folders.contains(folder_of(name->first))) {
        name = content.names.erase(name);
        continue;
      }
      if (name->second.is_folder) folders.insert(name->first);
      ++name;
    }
  }

  const FailureSampling& sampling_;
  std::vector<Name> names_;
  std::size_t open_names_ = 0;
  DiskContent after_;    ///< files after all writes
  DiskContent flushed_;  ///< files after only the flushed writes
  std::map<std::size_t, bool> at_stake_;
};

/// Calls `visit` with each possible content of a disk if the power fails after these changes, and
/// with a description. Unflushed changes have these outcomes:
///
///   names  each change is lost or kept, independently of the order of changes;
///   data   all data are kept or dropped; data are torn at a block of 512 or 4,096 bytes, where the
///          file ends or continues with its old content; one block is lost; the first blocks are
///          lost; random blocks are lost.
///
/// All files with unflushed data have the same outcome. In the first state, nothing is lost.
void for_each_power_failure(
    std::span<const DiskChange> changes, const FailureSampling& sampling,
    const std::function<void(const DiskContent& left, const std::string& what)>& visit) {
  Failure(changes, sampling).visit_all(visit);
}

// ---- Saves on a simulated disk.

constexpr const char* run_path = "run-on-a-simulated-disk";

struct Save {
  std::uint64_t step;
  std::uint64_t best_step;
  ArrayStore snapshot;
  std::size_t changes_before = 0, changes_after = 0;  ///< number of changes to the disk
};

/// A snapshot of several blocks of 4,096 bytes, different for each number.
ArrayStore snapshot_of(std::uint64_t number) {
  ArrayStore snapshot;
  const std::vector<float> weights(2000, static_cast<float>(number));
  snapshot.put<float>("parameters/weight", weights, {weights.size()});
  snapshot.put_scalar<std::uint64_t>("train/step", number);
  return snapshot;
}

/// Saves that delete old checkpoints, keep the best checkpoint until a better one exists, and
/// replace a checkpoint, since the run is resumed at an earlier step.
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

/// The expected result of a series of saves after a given number of changes.
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

  /// The error in the content of a disk; empty if it is as expected.
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
  /// The save that wrote a checkpoint; null unless it is the last completed or the interrupted
  /// save.
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
    if (whole < std::min<std::size_t>(2, completed_.size())) return "only one checkpoint is left";
    return best || newest.step < newest.best_step ? "" : "the best checkpoint is missing";
  }

  std::vector<const Save*> completed_;
  const Save* begun_ = nullptr;
};

/// Checks that a run can continue from these files: it removes leftover files, and its next save
/// succeeds.
std::string judge_continuing(const DiskContent& left, std::uint64_t next_step) {
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
                       const FailureSampling& sampling) {
  Tally tally;
  for (std::size_t changes = 0; changes <= disk.changes().size(); ++changes) {
    const Expectation expectation(saves, changes);
    bool nothing_lost = true;
    for_each_power_failure(std::span(disk.changes()).first(changes), sampling,
                           [&](const DiskContent& left, const std::string& what) {
                             std::string loss = expectation.judge(left);
                             if (loss.empty() && nothing_lost) loss = judge_continuing(left, 1000);
                             nothing_lost = false;
                             ++tally.states;
                             if (loss.empty()) return;
                             if (tally.losses++ == 0) {
                               tally.first_loss =
                                   fmt::format("after change {}, {}: {}", changes, what, loss);
                             }
                           });
  }
  return tally;
}

Tally try_disk(const char* name, SimulatedDisk disk, std::size_t save_count,
               const FailureSampling& sampling) {
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
  const FailureSampling sampling{.random_blocks = full ? std::size_t{200} : std::size_t{8}};
  const Tally honest = try_disk("a disk that flushes", {}, saves, sampling);

  const FailureSampling few{.random_blocks = 1, .max_name_states = 16};
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
