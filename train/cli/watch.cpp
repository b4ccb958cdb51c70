#include <fmt/format.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <system_error>
#include <thread>

#include "data/io/utf8.h"
#include "train/checkpoint/run_state.h"
#include "train/cli/command.h"
#include "train/error.h"
#include "train/platform/standard_streams.h"
#include "train/storage/run_directory.h"

namespace tapestry {
namespace {

struct Arguments {
  std::string run;
  std::size_t lines = 10;
};

/// Prints the lines that are appended to a log.
class LogFollower {
 public:
  explicit LogFollower(std::filesystem::path path) : path_(std::move(path)) {}

  /// Skips all but the last `count` lines that the log has.
  void skip_all_but(std::size_t count) {
    std::ifstream file(path_, std::ios::binary);
    std::size_t lines = 0;
    for (std::string line; std::getline(file, line);) ++lines;
    file.clear();
    file.seekg(0);
    for (std::string line; lines > count && std::getline(file, line); --lines) {
      position_ += line.size() + 1;
    }
  }

  /// Prints the complete lines that have been appended since the last call. A log that has become
  /// shorter is read from its beginning.
  void print_new_lines() {
    std::error_code error;
    const std::uintmax_t size = std::filesystem::file_size(path_, error);
    if (error) return;
    if (size < position_) position_ = 0;
    std::ifstream file(path_, std::ios::binary);
    file.seekg(static_cast<std::streamoff>(position_));
    for (std::string line; std::getline(file, line) && !file.eof();) {
      position_ += line.size() + 1;
      fmt::print("{}\n", escaped(line));
    }
    flush_standard_output();
  }

 private:
  std::filesystem::path path_;
  std::uint64_t position_ = 0;
};

int run(const Arguments& arguments) {
  using namespace std::chrono_literals;
  const std::filesystem::path run = find_run(arguments.run).path();
  if (!is_run_directory(run)) {
    throw CheckpointError(
        fmt::format("{}: found no run, expected a run directory", escaped(run.string())),
        "name a run directory; `runs` lists them");
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
  return static_cast<int>(ExitCode::done);
}

Action define(ArgumentParser& parser) {
  const auto arguments = std::make_shared<Arguments>();
  parser.add_option("RUN", arguments->run, "Run directory").required().check(not_empty());
  parser.add_option("--lines", arguments->lines, "Earlier lines to print first")
      .check(within(between(0, 1'000'000)))
      .show_default();
  parser.set_footer(
      "Prints the log of a run as another process writes it, until the run ends; Ctrl-C ends\n"
      "watching, not the run.\n"
      "Example:\n  tapestry watch runs/copy");
  return [arguments] { return run(*arguments); };
}

}  // namespace

const Command watch_command{
    .name = "watch", .purpose = "Follow the log of a run from another terminal", .define = define};

}  // namespace tapestry
