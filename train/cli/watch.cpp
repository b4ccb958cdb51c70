// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "data/io/file.h"
#include "data/io/utf8.h"
#include "train/base/error.h"
#include "train/base/program.h"
#include "train/checkpoint/open_run.h"
#include "train/checkpoint/run_directory.h"
#include "train/checkpoint/run_lock.h"
#include "train/checkpoint/run_state.h"
#include "train/cli/command.h"
#include "train/system/standard_streams.h"

namespace tapestry {
namespace watch_cli {
namespace {

struct Arguments {
  std::string run;
  std::size_t lines = 10;
};

/// Prints the lines that are appended to a log.
class LogFollower {
 public:
  explicit LogFollower(std::filesystem::path path) : path_(std::move(path)) {}

  /// Skips all lines of the log except the last `count`. Skips more lines if the last `count` lines
  /// exceed 64 MiB.
  void skip_all_but(std::size_t count) {
    constexpr std::size_t max_bytes = 64 << 20;
    const std::string text = read_end_of_run_file(path_, max_bytes).value_or("");
    std::size_t begin = text.rfind('\n') + 1;  // 0 if there is no line feed
    for (; count > 0 && begin > 0; --count) begin = line_before(text, begin);
    std::error_code error;
    const std::uintmax_t size = std::filesystem::file_size(path_, error);
    position_ = error || size < text.size() ? 0 : size - text.size() + begin;
  }

  /// Prints the complete lines that have been appended since the last call, and parts of very long
  /// lines. If the log has become shorter, prints it from its beginning.
  void print_new_lines() {
    std::error_code error;
    if (!std::filesystem::exists(path_, error)) return;
    const OpenFile file(path_, {.expected = "a log",
                                .special_hint = "name the directory of a run",
                                .too_large_hint = "name the directory of a run",
                                .max_bytes = std::numeric_limits<std::uint64_t>::max()});
    if (file.size() < position_) position_ = 0;
    std::string text(1 << 20, '\0');
    while (position_ < file.size()) {
      const std::size_t count = file.read_at(position_, std::as_writable_bytes(std::span(text)));
      const std::string_view read = std::string_view(text).substr(0, count);
      const bool is_long = count == text.size() && read.find('\n') == read.npos;
      const std::size_t complete = is_long ? count : read.rfind('\n') + 1;
      if (complete == 0) break;
      print_lines(read.substr(0, complete));
      position_ += complete;
    }
    flush_standard_output();
  }

 private:
  /// The start of the line before the line that starts at `begin` > 0.
  static std::size_t line_before(std::string_view text, std::size_t begin) {
    return begin < 2 ? 0 : text.rfind('\n', begin - 2) + 1;
  }

  static void print_lines(std::string_view lines) {
    while (!lines.empty()) {
      const std::size_t end = std::min(lines.find('\n'), lines.size());
      fmt::print("{}\n", escaped(lines.substr(0, end)));
      lines.remove_prefix(std::min(end + 1, lines.size()));
    }
  }

  std::filesystem::path path_;
  std::uint64_t position_ = 0;
};

void run(const Arguments& arguments) {
  using namespace std::chrono_literals;
  const std::filesystem::path run = find_run(arguments.run).path();
  if (!is_run_directory(run)) {
    throw CheckpointError(
        fmt::format("{}: found no run, expected a run directory", escaped(run.string())),
        hint_for_missing_run(run));
  }
  LogFollower log(run / "train.log");
  log.skip_all_but(arguments.lines);
  bool is_running = true;
  while (is_running) {
    is_running = is_locked(run);
    log.print_new_lines();
    if (is_running) std::this_thread::sleep_for(500ms);
  }
  fmt::print("{} is {}\n", escaped(run.string()), phase_name(read_run_state(run).phase));
}

void define(CLI::App& command, Arguments& arguments) {
  add_path(command, "RUN", arguments.run, "Run directory")->required();
  add_value(command, "--lines", arguments.lines, between(0, 1'000'000),
            "Number of earlier lines to print first");
  command.footer(
      "Prints the log of a run while another process writes it, until the run ends. Ctrl-C ends\n"
      "watching, not the run.\n"
      "Example:\n  tapestry watch runs/copy");
}

}  // namespace
}  // namespace watch_cli

extern const Command watch_command{.name = "watch",
                                   .purpose = "Follow the log of a run from another terminal",
                                   .define = with_arguments(watch_cli::define, watch_cli::run)};

}  // namespace tapestry
