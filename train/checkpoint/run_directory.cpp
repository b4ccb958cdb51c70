// SPDX-License-Identifier: BSD-3-Clause
#include "train/checkpoint/run_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <limits>
#include <new>
#include <ranges>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "data/io/durable_file.h"
#include "data/io/file.h"
#include "data/io/utf8.h"
#include "train/base/error.h"
#include "train/checkpoint/checkpoint_file.h"
#include "train/checkpoint/run_lock.h"

namespace tapestry {
namespace {

std::string checkpoint_name(std::uint64_t step) { return fmt::format("step-{:08}.h5", step); }

/// The step in the file name of a checkpoint; nullopt if the name is not exactly
/// checkpoint_name(step).
std::optional<std::uint64_t> parse_step(std::string_view name) {
  constexpr std::string_view prefix = "step-";
  if (!name.starts_with(prefix)) return std::nullopt;
  std::uint64_t step = 0;
  const char* first = name.data() + prefix.size();
  const auto result = std::from_chars(first, name.data() + name.size(), step);
  if (result.ec != std::errc() || name != checkpoint_name(step)) return std::nullopt;
  return step;
}

[[noreturn]] void reject_all(const std::filesystem::path& folder,
                             const std::vector<NewestCheckpoint::Rejected>& rejected) {
  std::string message =
      fmt::format("{}: found {} checkpoints, all unusable, expected at least one intact checkpoint",
                  escaped(folder.string()), rejected.size());
  for (const auto& [path, reason] : rejected) message += "\n  " + reason;
  throw CheckpointError(message, "restore a checkpoint from a backup, or start a new run");
}

/// Renames a folder at the path of a checkpoint, since a file cannot replace it. Ignores failures:
/// writing the checkpoint will then fail.
void rename_folder(const std::filesystem::path& path, FileSystem& files) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(std::filesystem::symlink_status(path, ignored))) return;
  files.rename(path.c_str(), (path.string() + ".folder").c_str());
}

/// The steps to keep regardless of age. Some of them may have no checkpoint.
///
/// steps  steps with a checkpoint, in ascending order
std::set<std::uint64_t> kept_steps(const std::vector<std::uint64_t>& steps,
                                   const Retention& retention) {
  std::set<std::uint64_t> kept(retention.steps.begin(), retention.steps.end());
  std::size_t best = 0;
  for (const std::uint64_t step : retention.best_first) {
    if (best == retention.keep_best) break;
    if (!std::ranges::binary_search(steps, step)) continue;
    kept.insert(step);
    ++best;
  }
  return kept;
}

/// The files that training writes into a run directory, except `events.*`.
constexpr std::array<std::string_view, 7> run_file_names{
    "config.yaml", "metrics.csv",  "train.log",      "average.h5",
    "timing.csv",  "time_use.csv", "recording.jsonl"};

FileKind text_kind(std::uint64_t max_bytes) {
  return {.expected = "a text file",
          .special_hint = "name the directory of a run",
          .too_large_hint = "delete the file if it does not belong to the run",
          .max_bytes = max_bytes,
          .follows_links = false};
}

bool is_missing(const std::filesystem::path& path) {
  std::error_code ignored;
  return !std::filesystem::exists(std::filesystem::symlink_status(path, ignored));
}

std::string last_bytes(const OpenFile& file, std::uint64_t max_bytes) {
  const std::uint64_t bytes = std::min(file.size(), max_bytes);
  std::string text(bytes, '\0');
  text.resize(file.read_at(file.size() - bytes, std::as_writable_bytes(std::span(text))));
  return text;
}

}  // namespace

RunDirectory::RunDirectory(std::filesystem::path path, FileSystem& files)
    : path_(std::move(path)), checkpoints_(path_ / "checkpoints"), files_(files) {}

std::filesystem::path RunDirectory::checkpoint_path(std::uint64_t step) const {
  return checkpoints_ / checkpoint_name(step);
}

void RunDirectory::create() { create_folder_durably(checkpoints_, files_); }

void RunDirectory::lock() { lock_ = std::make_shared<RunLock>(path_, files_); }

void RunDirectory::require_lock() const {
  if (lock_) lock_->require_held();
}

std::filesystem::path RunDirectory::create_cache_folder() {
  create_folder_durably(cache_folder(), files_);
  return cache_folder();
}

std::vector<std::uint64_t> RunDirectory::steps() const {
  std::vector<std::uint64_t> steps;
  for (const std::string& name : file_names(checkpoints_)) {
    if (const auto step = parse_step(name)) steps.push_back(*step);
  }
  std::ranges::sort(steps);
  return steps;
}

std::optional<NewestCheckpoint> RunDirectory::read_newest(const Requirement& require) const {
  std::vector<NewestCheckpoint::Rejected> rejected;
  auto newest_first = steps();
  std::ranges::reverse(newest_first);
  for (const std::uint64_t step : newest_first) {
    const auto path = checkpoint_path(step);
    try {
      ArrayStore arrays = read_checkpoint(path, 0, files_);
      require(step, arrays);
      return NewestCheckpoint{step, path, std::move(arrays), std::move(rejected)};
    } catch (const UnusableCheckpoint& error) {
      rejected.push_back({path, error.what()});
    }
  }
  if (!rejected.empty()) reject_all(checkpoints_, rejected);
  return std::nullopt;
}

std::vector<std::string> RunDirectory::save(std::uint64_t step, const ArrayStore& arrays,
                                            const Retention& retention) {
  if (retention.keep_last == 0) {
    throw std::invalid_argument("RunDirectory::save: keep_last is 0, expected at least 1");
  }
  rename_folder(checkpoint_path(step), files_);
  write_checkpoint(checkpoint_path(step), arrays, files_);
  return delete_old(step, retention);
}

std::vector<std::string> RunDirectory::delete_old(std::uint64_t newest,
                                                  const Retention& retention) try {
  return prune(newest, retention);
} catch (const CheckpointError& error) {  // the folder could not be listed
  return {error.what()};
} catch (const std::bad_alloc&) {
  return {
      fmt::format("{}: not enough memory to list the checkpoints", escaped(checkpoints_.string()))};
}

void RunDirectory::probe(std::uint64_t bytes, std::uint64_t other_files) const {
  const std::uint64_t needed = other_files + 1;
  const auto free = files_.free_inodes(path_.c_str());
  if (free && *free < needed) {
    throw OutputError(
        fmt::format("{}: could not create the files of a run: {} ({} inodes needed, {} free)",
                    escaped(path_.string()), std::generic_category().message(ENOSPC), needed,
                    *free),
        inode_hint(path_));
  }
  probe_folder(checkpoints_, bytes, files_);
}

RunDirectory::StrayTemporaries RunDirectory::remove_stray_temporaries() {
  StrayTemporaries strays;
  for (const auto& folder : {path_, checkpoints_, cache_folder()}) {
    for (const std::string& name : file_names(folder)) {
      if (!is_temporary_name(name)) continue;
      try {
        if (remove_abandoned(folder / name, files_)) strays.removed.push_back(folder / name);
      } catch (const OutputError& error) {
        strays.problems.emplace_back(error.what());
      }
    }
  }
  return strays;
}

std::vector<std::string> RunDirectory::file_names(const std::filesystem::path& folder) const {
  std::vector<std::string> names;
  const int result = retry_interrupted([&] {
    names.clear();
    return files_.list(folder.c_str(), names);
  });
  if (result != 0 && errno == ENOMEM) throw std::bad_alloc();
  // ENOTDIR means that the path of the folder is a file, so the run has no checkpoints.
  if (result != 0 && errno != ENOENT && errno != ENOTDIR) {
    const int code = errno;
    const bool is_limit = code == EMFILE || code == ENFILE;
    throw CheckpointError(
        fmt::format("{}: could not list the checkpoints: {}", escaped(folder.string()),
                    std::generic_category().message(code)),
        is_limit ? output_error_hint(code, folder, files_)
                 : "give a run directory that this user can read");
  }
  std::ranges::sort(names);
  return names;
}

/// Returns the reasons why some checkpoints could not be deleted.
std::vector<std::string> RunDirectory::prune(std::uint64_t newest, const Retention& retention) {
  std::vector<std::string> problems;
  auto old = steps();
  old.erase(std::ranges::upper_bound(old, newest), old.end());
  const std::set<std::uint64_t> kept = kept_steps(old, retention);
  old.resize(old.size() - std::min(old.size(), retention.keep_last));
  for (const std::uint64_t step : old) {
    if (kept.contains(step)) continue;
    const auto path = checkpoint_path(step);
    std::error_code ignored;
    if (std::filesystem::is_directory(std::filesystem::symlink_status(path, ignored))) {
      continue;  // not a checkpoint of this run
    }
    try {
      remove_file(path, files_);
    } catch (const OutputError& error) {
      problems.emplace_back(error.what());
    }
  }
  return problems;
}

RunDirectory find_run(const std::filesystem::path& folder) {
  const RunDirectory named(folder);
  const auto given = folder.has_filename() ? folder : folder.parent_path();  // "checkpoints/"
  std::error_code ignored;
  if (std::filesystem::canonical(given, ignored).filename() != "checkpoints") return named;
  const auto above = given.filename() == "checkpoints" ? given.parent_path() : given / "..";
  RunDirectory run(above.empty() ? "." : above);
  return named.steps().empty() && !run.steps().empty() ? run : named;
}

FileDescriptor open_run_file(const std::filesystem::path& path, int flags, FileSystem& files) {
  constexpr int safely = O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY;
  FileDescriptor file(
      files, retry_interrupted([&] { return files.open(path.c_str(), flags | safely, 0666); }));
  struct stat status {};
  if (!file.is_open() || files.fstat(file.get(), status) != 0 || S_ISREG(status.st_mode)) {
    return file;
  }
  file.close();
  errno = S_ISDIR(status.st_mode) ? EISDIR : ENXIO;
  return file;
}

std::string run_file_problem(int code, const std::filesystem::path& path, FileSystem& files) {
  const char* const found = code == ELOOP    ? "a symbolic link"
                            : code == EISDIR ? "a folder"
                            : code == ENXIO  ? "a pipe, socket or device"
                                             : nullptr;
  return found == nullptr ? output_error_text(code, path.parent_path(), files)
                          : fmt::format("found {}, expected a regular file", found);
}

bool is_file_of_run(const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path absolute = fs::absolute(path, ignored);
  const fs::path folder = fs::weakly_canonical(absolute.parent_path(), ignored);
  const auto is_run = [&](const fs::path& each) {
    return fs::is_directory(each / "checkpoints", ignored);
  };
  if (is_run(folder)) {
    const std::string name = absolute.filename().string();
    return name == "checkpoints" || name == "cache" || name.starts_with('.') ||
           name.starts_with("events.") ||
           std::ranges::find(run_file_names, name) != run_file_names.end();
  }
  for (fs::path each = folder; each.has_relative_path(); each = each.parent_path()) {
    const std::string name = each.filename().string();
    const bool is_part = name == "checkpoints" || name == "cache" || name == "tensorboard";
    if (is_part && is_run(each.parent_path())) return true;
  }
  return false;
}

std::optional<std::string> read_run_file(const std::filesystem::path& path) {
  if (is_missing(path)) return std::nullopt;
  return last_bytes(OpenFile(path, text_kind(max_run_file_bytes)), max_run_file_bytes);
}

std::optional<std::string> read_end_of_run_file(const std::filesystem::path& path,
                                                std::size_t max_bytes) {
  if (is_missing(path)) return std::nullopt;
  constexpr std::uint64_t any_size = std::numeric_limits<std::uint64_t>::max();
  return last_bytes(OpenFile(path, text_kind(any_size)), max_bytes);
}

}  // namespace tapestry
