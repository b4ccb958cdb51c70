#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "data/io/utf8.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/comparison.h"
#include "train/checkpoint/open_run.h"
#include "train/cli/command.h"
#include "train/config/config.h"
#include "train/error.h"
#include "train/format.h"
#include "train/storage/checkpoint_file.h"
#include "train/storage/run_directory.h"
#include "train/storage/run_file.h"

namespace tapestry {
namespace diff_cli {
namespace {

namespace fs = std::filesystem;

struct Arguments {
  std::string a, b;
  bool all = false;  ///< list all arrays
};

/// Prints which config keys differ.
void print_config_differences(const Snapshot& a, const Snapshot& b) {
  for (const ConfigDifference& each : compare_configs(saved_config(a), saved_config(b))) {
    fmt::print("config: {}: {} and {}\n", each.key, escaped(each.checkpoint), escaped(each.now));
  }
}

/// Prints how two checkpoints differ. Returns whether they do.
bool print_difference(const std::string& title, const Snapshot& a, const Snapshot& b, bool all) {
  const std::vector<ArrayDifference> differences = compare_snapshots(a, b);
  if (differences.empty()) {
    fmt::print("{}: all numbers are equal\n", title);
    return false;
  }
  fmt::print("{}: {} array{}\n", title, differences.size(),
             differences.size() == 1 ? " differs" : "s differ");
  const std::size_t shown = all ? differences.size() : 1;
  for (std::size_t i = 0; i < shown; ++i) {
    fmt::print("  {}: {}\n", escaped(differences[i].path), differences[i].what);
  }
  if (shown < differences.size()) {
    fmt::print("  and {} more; --all lists them\n", differences.size() - shown);
  }
  return true;
}

/// Prints the first lines of metrics.csv that differ. Returns whether there are any.
bool print_metrics_difference(const fs::path& a, const fs::path& b) {
  const std::string x = read_run_file(a / "metrics.csv").value_or(""),
                    y = read_run_file(b / "metrics.csv").value_or("");
  if (x == y) return false;
  const auto [in_x, in_y] = std::ranges::mismatch(x, y);
  // The line that a byte is in.
  const auto line_at = [](std::string_view text, std::ptrdiff_t position) {
    const std::string_view before = text.substr(0, static_cast<std::size_t>(position));
    const std::size_t begin = before.rfind('\n') + 1;  // 0 without a line feed
    return begin == text.size() ? std::string("no more lines")
                                : std::string(text.substr(begin, text.find('\n', begin) - begin));
  };
  fmt::print("metrics.csv differs first in:\n  {}\n  {}\n", escaped(line_at(x, in_x - x.begin())),
             escaped(line_at(y, in_y - y.begin())));
  return true;
}

/// Compares the checkpoints that two runs have of the same steps, oldest first, up to the first
/// that differ. Returns whether the runs differ.
bool compare_runs(const RunDirectory& a, const RunDirectory& b, bool all) {
  std::vector<std::uint64_t> steps;
  std::ranges::set_intersection(a.steps(), b.steps(), std::back_inserter(steps));
  if (steps.empty()) {
    throw CheckpointError(
        fmt::format("{} and {}: found no step of which both have a checkpoint, expected one",
                    escaped(a.path().string()), escaped(b.path().string())),
        "name two checkpoints");
  }
  const bool metrics_differ = print_metrics_difference(a.path(), b.path());
  bool is_first = true;
  for (const std::uint64_t step : steps) {
    const Snapshot x = read_checkpoint(a.checkpoint_path(step));
    const Snapshot y = read_checkpoint(b.checkpoint_path(step));
    if (is_first) print_config_differences(x, y);
    is_first = false;
    if (print_difference(fmt::format("step {}", format_count(step)), x, y, all)) return true;
  }
  return metrics_differ;
}

bool is_folder(const std::string& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

int run(const Arguments& arguments) {
  bool differ = false;
  if (is_folder(arguments.a) && is_folder(arguments.b)) {
    differ = compare_runs(find_run(arguments.a), find_run(arguments.b), arguments.all);
  } else {
    const OpenedCheckpoint a = open_run(arguments.a), b = open_run(arguments.b);
    print_config_differences(a.snapshot, b.snapshot);
    differ = print_difference(
        fmt::format("{} and {}", escaped(a.path.string()), escaped(b.path.string())), a.snapshot,
        b.snapshot, arguments.all);
  }
  return static_cast<int>(differ ? ExitCode::check_failed : ExitCode::done);
}

Action define(ArgumentParser& parser) {
  const auto arguments = std::make_shared<Arguments>();
  parser.add_option("A", arguments->a, "Run directory or checkpoint").required().check(not_empty());
  parser.add_option("B", arguments->b, "Another one").required().check(not_empty());
  parser.add_flag("--all", arguments->all, "List all arrays that differ, not the first alone");
  parser.set_footer(
      "Of two runs, the checkpoints of each step that both have are compared, oldest first: the\n"
      "first step and tensor that differ are named, and the first line of metrics.csv. Numbers\n"
      "are equal if all their bits are. The exit code is 1 if anything but the config differs.\n"
      "Examples:\n  tapestry diff runs/a runs/b\n"
      "  tapestry diff runs/a/checkpoints/step-00001000.h5 runs/b/checkpoints/step-00001000.h5");
  return [arguments] { return run(*arguments); };
}

}  // namespace
}  // namespace diff_cli

const Command diff_command{
    .name = "diff",
    .purpose = "Compare two runs or checkpoints, down to the first tensor that differs",
    .define = diff_cli::define};

}  // namespace tapestry
