#include "tests/durability/power_failure.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

namespace tapestry::test {
namespace {

using Kind = DiskChange::Kind;

bool is_name(const DiskChange& change) {
  return change.kind == Kind::put_name || change.kind == Kind::drop_name;
}

/// Whether `flush` makes `change`, which came before it, outlast a power failure.
bool covers(const DiskChange& flush, const DiskChange& change) {
  if (flush.kind == Kind::flush_folder)
    return is_name(change) && folder_of(change.path) == flush.path;
  return flush.kind == Kind::flush_file && change.kind == Kind::write && change.file == flush.file;
}

/// What becomes of the data of a file that was not flushed.
struct DataFate {
  std::string what;
  std::size_t block = 512;
  std::function<bool(std::size_t number)> keeps;
  std::size_t blocks_left = std::numeric_limits<std::size_t>::max();  ///< the file ends behind them
};

/// `after` as the fate leaves it of a file that had the bytes `before` on the disk.
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

/// All fates of files of at most `size` bytes, of which the first loses nothing.
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

/// The changes before a power failure, sorted by whether they outlast it.
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

  /// Bit i % 64 of `lost` is for the i-th name that was not flushed.
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
      // A folder sorts before what is in it.
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
  DiskContent after_;    ///< files as all writes leave them
  DiskContent flushed_;  ///< files as the flushed writes alone leave them
  std::map<std::size_t, bool> at_stake_;
};

}  // namespace

void for_each_power_failure(
    std::span<const DiskChange> changes, const FailureSampling& sampling,
    const std::function<void(const DiskContent& left, const std::string& what)>& visit) {
  Failure(changes, sampling).visit_all(visit);
}

}  // namespace tapestry::test
