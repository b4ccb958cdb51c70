#include "train/checkpoint/run_state.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <exception>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>

#include "train/config/config.h"
#include "train/metrics.h"

namespace tapestry {
namespace {

namespace fs = std::filesystem;

/// The last bytes of a file, at most `most`; empty if it cannot be read.
std::string end_of(const fs::path& path, std::size_t most) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return {};
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = file.tellg();
  if (size <= 0) return {};
  const auto count = std::min<std::streamoff>(size, static_cast<std::streamoff>(most));
  file.seekg(-count, std::ios::end);
  std::string text(static_cast<std::size_t>(count), '\0');
  file.read(text.data(), count);
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

std::string first_line(const fs::path& path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

/// The message of a line of train.log, which begins with the time of day and two blanks.
std::string_view message_of(std::string_view line) {
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
  const std::string text = end_of(state.path / "train.log", enough);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view message = message_of(std::string_view(text).substr(begin, end - begin));
    begin = end + 1;
    bool goes_on = false;
    if (const auto step = number_after("step ", message)) {
      state.step = *step;
      goes_on = true;
    } else if (const auto at = number_after("validation at step ", message)) {
      state.step = std::max(state.step, *at);
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

void read_config(RunState& state) {
  const Config config = load_config((state.path / "config.yaml").string());
  state.steps = config.train.steps;
  state.metric = config.train.best_metric;
}

void read_best(RunState& state) {
  std::ifstream file(state.path / "metrics.csv", std::ios::binary);
  const std::string csv{std::istreambuf_iterator<char>(file), {}};
  if (csv.empty()) return;
  require_metrics(csv, (state.path / "metrics.csv").string());
  for (const auto& [step, value] : validation_values(csv, state.metric)) {
    if (state.best && !is_better(state.metric, value, *state.best)) continue;
    state.best = value;
    state.best_step = step;
  }
}

}  // namespace

std::string_view phase_name(RunPhase phase) {
  switch (phase) {
    case RunPhase::running:
      return "running";
    case RunPhase::finished:
      return "finished";
    case RunPhase::failed:
      return "failed";
    case RunPhase::stopped:
      break;
  }
  return "stopped";
}

bool is_run_directory(const fs::path& folder) {
  std::error_code error;
  return fs::is_regular_file(folder / "config.yaml", error) &&
         fs::is_directory(folder / "checkpoints", error);
}

bool is_locked(const fs::path& run) {
  struct stat lock {};
  if (::lstat((run / ".lock").c_str(), &lock) != 0) return false;
  // MAJOR:MINOR:INODE, after `FLOCK  ADVISORY  WRITE PID`.
  const std::string place =
      fmt::format(" {:02x}:{:02x}:{} ", major(lock.st_dev), minor(lock.st_dev), lock.st_ino);
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    if (line.find(" FLOCK ") != line.npos && line.find(place) != line.npos) return true;
  }
  return false;
}

RunState read_run_state(const fs::path& run) {
  RunState state{.path = run};
  read_log(state);
  if (is_locked(run)) {
    state.phase = RunPhase::running;
    state.holder = first_line(run / ".lock");
  }
  std::error_code error;
  const auto changed = fs::last_write_time(run / "train.log", error);
  if (!error) state.changed = changed;
  try {
    read_config(state);
    read_best(state);
  } catch (const std::exception& unreadable) {
    if (state.problem.empty()) state.problem = unreadable.what();
  }
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
