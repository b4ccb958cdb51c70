// SPDX-License-Identifier: BSD-3-Clause
#include "train/checkpoint/run_state.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <exception>
#include <sstream>
#include <system_error>

#include "train/checkpoint/metrics.h"
#include "train/checkpoint/run_directory.h"
#include "train/checkpoint/run_lock.h"
#include "train/config/config.h"
#include "train/config/known_keys.h"

namespace tapestry {
namespace {

namespace fs = std::filesystem;

std::string first_line(const fs::path& path) {
  constexpr std::size_t max_bytes = 4096;
  const std::string text = read_end_of_run_file(path, max_bytes).value_or("");
  return text.substr(0, text.find('\n'));
}

/// The message of a line of train.log, without the date, the time and the two spaces after them.
std::string_view without_time(std::string_view line) {
  const std::size_t blanks = line.find("  ");
  return blanks == line.npos ? line : line.substr(blanks + 2);
}

/// The number after `prefix` if the text begins with `prefix`. Accepts commas, as in 1,234.
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

/// Reads the last step and the phase from the end of train.log.
void read_log(RunState& state) {
  constexpr std::size_t tail_bytes = 64 * 1024;
  std::istringstream lines(read_end_of_run_file(state.path / "train.log", tail_bytes).value_or(""));
  for (std::string line; std::getline(lines, line);) {
    const std::string_view message = without_time(line);
    bool continues = false;
    if (const auto step = number_after("step ", message)) {
      state.step = *step;
      continues = true;
    } else if (const auto at = number_after("validation at step ", message)) {
      state.step = std::max(state.step, *at);
      continues = true;
    } else if (message.starts_with("resuming ")) {
      continues = true;
    } else if (const auto done = number_after("done: ", message)) {
      state.step = *done;
      state.phase = RunPhase::finished;
      state.problem.clear();
    } else if (message.starts_with("error: ")) {
      state.phase = RunPhase::failed;
      state.problem = message.substr(7);
    }
    if (continues && state.phase != RunPhase::stopped) {  // the run was resumed
      state.phase = RunPhase::stopped;
      state.problem.clear();
    }
  }
}

/// Updates the step if the newest checkpoint is later than the last logged step.
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

std::string_view phase_name(RunPhase phase) {
  constexpr std::array<std::string_view, 4> names = {"running", "finished", "failed", "stopped"};
  return names.at(static_cast<std::size_t>(phase));
}

bool is_run_directory(const fs::path& folder) {
  std::error_code error;
  return fs::is_regular_file(folder / "config.yaml", error) &&
         fs::is_directory(folder / "checkpoints", error);
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
  struct stat log {};  // std::filesystem::last_write_time() fails beyond the year 2262
  if (::stat((run / "train.log").c_str(), &log) == 0) state.changed = log.st_mtime;
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
