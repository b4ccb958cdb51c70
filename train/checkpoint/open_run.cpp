#include "train/checkpoint/open_run.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "data/io/file.h"
#include "data/io/utf8.h"
#include "train/base/error.h"
#include "train/base/program.h"
#include "train/checkpoint/average.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checkpoint_file.h"
#include "train/checkpoint/metrics.h"
#include "train/checkpoint/run_directory.h"
#include "train/config/config.h"
#include "train/system/standard_streams.h"

namespace tapestry {
namespace {

namespace fs = std::filesystem;

// ---- The id of a run.

constexpr std::string_view line_start = "# run id: ";
constexpr std::size_t id_digits = 16;

bool is_run_id(std::string_view text) {
  return text.size() == id_digits && text.find_first_not_of("0123456789abcdef") == text.npos;
}

/// Rejects a checkpoint that does not belong to the run.
///
/// path    of the checkpoint, which is named after `step`
/// run_id  of the run, if known
void require_of_run(const ArrayStore& arrays, const fs::path& path, std::uint64_t step,
                    const std::optional<std::string>& run_id) {
  if (const std::uint64_t found = saved_step(arrays); found != step) {
    throw UnusableCheckpoint(fmt::format("{}: found the checkpoint of step {}, expected step {}, "
                                         "after which the file is named",
                                         escaped(path.string()), found, step),
                             "give the file its original name");
  }
  const std::string found = saved_run_id(arrays);
  if (!run_id || found.empty() || found == *run_id) return;
  throw UnusableCheckpoint(
      fmt::format("{}: found a checkpoint of the run {}, expected one of the run {}, as "
                  "config.yaml of the run directory says",
                  escaped(path.string()), found, *run_id),
      "move the checkpoint back to the directory of its run");
}

void warn_about(const std::string& damage) {
  warn(fmt::format("{}; another checkpoint of the run is used", damage));
}

/// The average with which the run has ended, if it is to be used: its validation was better than
/// `best`, or there is no validation.
///
/// best  the best value of train.best_metric of the checkpoints; infinity before the first
/// validation
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
    throw CheckpointError(fmt::format("{}: holds no checkpoint, expected a run directory or a "
                                      "checkpoint file",
                                      escaped(directory.path().string())),
                          fmt::format("train first: {} train CONFIG", program_name()));
  }
  for (const auto& rejected : newest->rejected) warn_about(rejected.reason);
  const auto best_loss = newest->arrays.get_scalar<double>("train/best_loss");
  const auto best_step = newest->arrays.get_scalar<std::uint64_t>("train/best_step");
  if (auto average = better_average(directory, *newest, best_loss)) {
    return {directory.average_path(), *std::move(average),
            "the average of the last checkpoints of the run"};
  }
  if (!std::isfinite(best_loss) || best_step == newest->step) {
    return {newest->path, std::move(newest->arrays), ""};
  }
  const auto path = directory.checkpoint_path(best_step);
  try {
    return {path, read_checkpoint_of_run(directory, best_step),
            fmt::format("the best of the run, whose newest is step {}", newest->step)};
  } catch (const CheckpointError& error) {
    warn_about(error.what());
    return {newest->path, std::move(newest->arrays), ""};
  }
}

// ---- The state of a run.

std::string first_line(const fs::path& path) {
  constexpr std::size_t most = 4096;
  const std::string text = read_end_of_run_file(path, most).value_or("");
  return text.substr(0, text.find('\n'));
}

/// The message of a line of train.log, which begins with the time of day and two blanks.
std::string_view without_time(std::string_view line) {
  const std::size_t blanks = line.find("  ");
  return blanks == line.npos ? line : line.substr(blanks + 2);
}

/// The number after `prefix`, if the text begins with it. The number may have commas.
std::optional<std::uint64_t> number_after(std::string_view prefix, std::string_view text) {
  if (!text.starts_with(prefix)) return std::nullopt;
  text.remove_prefix(prefix.size());
  const std::size_t begin = text.find_first_not_of(' ');
  if (begin == text.npos) return std::nullopt;
  std::string digits;
  for (const char c : text.substr(begin)) {
    if (c == ',') continue;
    if (c < '0' || c > '9') break;
    digits += c;
  }
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (digits.empty() || error != std::errc()) return std::nullopt;
  return number;
}

/// Reads the end of train.log: the last step, and how the run ended.
void read_log(RunState& state) {
  constexpr std::size_t enough = 64 * 1024;
  const std::string text = read_end_of_run_file(state.path / "train.log", enough).value_or("");
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view message =
        without_time(std::string_view(text).substr(begin, end - begin));
    begin = end + 1;
    bool goes_on = false;
    if (const auto step = number_after("step ", message)) {
      state.step = *step;
      goes_on = true;
    } else if (const auto at = number_after("validation at step ", message)) {
      state.step = std::max(state.step, *at);
      goes_on = true;
    } else if (message.starts_with("resuming ")) {
      goes_on = true;
    } else if (const auto done = number_after("done: ", message)) {
      state.step = *done;
      state.phase = RunPhase::finished;
      state.problem.clear();
    } else if (message.starts_with("error: ")) {
      state.phase = RunPhase::failed;
      state.problem = message.substr(7);
    }
    if (goes_on && state.phase != RunPhase::stopped) {  // it was resumed
      state.phase = RunPhase::stopped;
      state.problem.clear();
    }
  }
}

/// The log has a line every train.log_every steps; a save may be newer.
void read_checkpoints(RunState& state) {
  const std::vector<std::uint64_t> saved = RunDirectory(state.path).steps();
  if (!saved.empty()) state.step = std::max(state.step, saved.back());
}

void read_lock(RunState& state) {
  if (!is_locked(state.path)) return;
  state.phase = RunPhase::running;
  state.holder = first_line(state.path / ".lock");
}

void read_config(RunState& state) {
  const KnownKeys known = load_known_keys((state.path / "config.yaml").string());
  if (known.given.contains("train.steps")) state.steps = known.config.train.steps;
  state.metric = known.config.train.best_metric;
  if (state.problem.empty()) state.problem = known.problem;
}

void read_best(RunState& state) {
  const std::string csv = read_run_file(state.path / "metrics.csv").value_or("");
  if (csv.empty()) return;
  require_metrics(csv, (state.path / "metrics.csv").string());
  for (const auto& [step, value] : validation_values(csv, state.metric)) {
    if (!std::isfinite(value) || (state.best && !is_better(state.metric, value, *state.best)))
      continue;
    state.best = value;
    state.best_step = step;
  }
}

}  // namespace

std::string run_id_line(std::string_view run_id) {
  return fmt::format("{}{}\n", line_start, run_id);
}

std::optional<std::string> read_run_id(const fs::path& config_file) try {
  const OpenFile file(config_file,
                      {.expected = "a config file", .special_hint = "", .too_large_hint = ""});
  std::string line(line_start.size() + id_digits + 1, '\0');
  line.resize(file.read_at(0, std::as_writable_bytes(std::span(line))));
  if (!line.starts_with(line_start) || !line.ends_with('\n')) return std::nullopt;
  std::string id = line.substr(line_start.size(), id_digits);
  return is_run_id(id) ? std::optional(std::move(id)) : std::nullopt;
} catch (const FileError&) {
  return std::nullopt;
}

std::optional<std::string> recorded_run_id(const RunDirectory& directory) {
  return read_run_id(directory.path() / "config.yaml");
}

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
  for (;;) {
    try {
      return read_checkpoint_of_run(directory, step);
    } catch (const UnusableCheckpoint&) {
      if (std::chrono::steady_clock::now() >= end) throw;
    }
    std::this_thread::sleep_for(std::min(timeout, std::chrono::milliseconds(200)));
  }
}

std::string ModelOrigin::in_words() const {
  return escaped(choice.empty() ? place : fmt::format("{} ({})", place, choice));
}

OpenedCheckpoint open_run(const std::string& run) {
  std::error_code ignored;
  if (fs::is_directory(run, ignored)) return best_checkpoint(find_run(run));
  return {run, read_checkpoint(run), ""};
}

std::string_view phase_name(RunPhase phase) {
  constexpr std::array<std::string_view, 4> names = {"running", "finished", "failed", "stopped"};
  return names.at(static_cast<std::size_t>(phase));
}

bool is_run_directory(const fs::path& folder) {
  std::error_code error;
  return fs::is_regular_file(folder / "config.yaml", error) &&
         fs::is_directory(folder / "checkpoints", error);
}

bool lists_lock(std::string_view locks, const LockFile& file) {
  const std::string inode = fmt::format(":{} ", file.inode);
  const std::string device = fmt::format(" {:02x}:{:02x}{}", file.major, file.minor, inode);
  const std::string process = fmt::format(" {} ", file.process);
  for (std::size_t begin = 0; begin < locks.size();) {
    const std::size_t end = std::min(locks.find('\n', begin), locks.size());
    const std::string_view line = locks.substr(begin, end - begin);
    begin = end + 1;
    const auto has = [&](std::string_view part) { return line.find(part) != line.npos; };
    if (!has(" FLOCK ") || !has(inode)) continue;
    if (has(device) || (file.process > 0 && has(process))) return true;
  }
  return false;
}

bool is_locked(const fs::path& run) {
  struct stat lock {};
  if (::lstat((run / ".lock").c_str(), &lock) != 0 || !S_ISREG(lock.st_mode)) return false;
  LockFile file{.major = major(lock.st_dev), .minor = minor(lock.st_dev), .inode = lock.st_ino};
  try {
    file.process = number_after("pid ", first_line(run / ".lock")).value_or(0);
  } catch (const FileError&) {  // the device has to match
  }
  std::ifstream locks("/proc/locks");
  const std::string text{std::istreambuf_iterator<char>(locks), {}};
  return lists_lock(text, file);
}

RunState read_run_state(const fs::path& run) {
  RunState state{.path = run};
  const auto attempt = [&](const auto& read) {
    try {
      read(state);
    } catch (const std::exception& unreadable) {
      if (state.problem.empty()) state.problem = unreadable.what();
    }
  };
  attempt(read_log);
  attempt(read_checkpoints);
  attempt(read_lock);
  std::error_code error;
  const auto changed = fs::last_write_time(run / "train.log", error);
  if (!error) state.changed = changed;
  attempt([](RunState& each) {
    read_config(each);
    read_best(each);
  });
  return state;
}

std::vector<fs::path> find_runs(const fs::path& folder, std::size_t depth) {
  if (is_run_directory(folder)) return {folder};
  std::vector<fs::path> runs;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code ignored;
    const fs::path& path = entry->path();
    const bool is_folder = fs::is_directory(entry->symlink_status(ignored)) &&
                           !path.filename().string().starts_with('.');
    if (!is_folder || depth == 0) continue;
    const auto inside = find_runs(path, depth - 1);
    runs.insert(runs.end(), inside.begin(), inside.end());
  }
  std::ranges::sort(runs);
  return runs;
}

}  // namespace tapestry
