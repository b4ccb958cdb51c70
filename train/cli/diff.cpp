// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "data/io/utf8.h"
#include "train/base/error.h"
#include "train/base/format.h"
#include "train/checkpoint/array_store.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checkpoint_file.h"
#include "train/checkpoint/open_run.h"
#include "train/checkpoint/run_directory.h"
#include "train/cli/command.h"
#include "train/config/config.h"
#include "train/config/difference.h"
#include "train/recording/run_events.h"

namespace tapestry {
namespace diff_cli {
namespace {

namespace fs = std::filesystem;

struct Arguments {
  std::string a, b;
  bool all = false;  ///< whether to list all arrays
};

/// Prints which config keys differ.
void print_config_differences(const ArrayStore& a, const ArrayStore& b) {
  for (const ConfigDifference& each : compare_configs(saved_config(a), saved_config(b))) {
    fmt::print("config: {}: {} and {}\n", each.key, escaped(each.checkpoint),
               escaped(each.current));
  }
}

/// Prints the arrays that differ between two checkpoints.
///
/// all  false: prints only the first array
void print_differences(const std::string& title, const std::vector<ArrayDifference>& differences,
                       bool all) {
  if (differences.empty()) {
    fmt::print("{}: all numbers are equal\n", title);
    return;
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
}

/// Prints the first line that differs between the texts of two metrics.csv files.
void print_metrics_difference(std::string_view x, std::string_view y) {
  const auto [in_x, in_y] = std::ranges::mismatch(x, y);
  // The line that contains the byte at `position`.
  const auto line_at = [](std::string_view text, std::ptrdiff_t position) {
    const std::string_view before = text.substr(0, static_cast<std::size_t>(position));
    const std::size_t begin = before.rfind('\n') + 1;  // 0 if there is no line feed
    return begin == text.size() ? std::string("no more lines")
                                : std::string(text.substr(begin, text.find('\n', begin) - begin));
  };
  fmt::print("first difference in metrics.csv:\n  {}\n  {}\n",
             escaped(line_at(x, in_x - x.begin())), escaped(line_at(y, in_y - y.begin())));
}

constexpr const char* exactness_hint =
    "train both runs with train.digest_every=1 to find the exact step and the first tensor";

/// The first difference between two runs.
struct FirstDifference {
  std::uint64_t equal_step = 0;  ///< the last step known to be equal; 0: no such step
  std::uint64_t step = 0;        ///< the first step that is known to differ
  std::string tensor;            ///< the first tensor that differs after `step`
};

/// The digests of all parameters that two runs have recorded after their steps.
struct Digests {
  DigestTable a, b;
  std::optional<DigestComparison> comparison;

  /// The last step before `step` whose digests are equal in both runs; 0: no such step.
  std::uint64_t last_equal_before(std::uint64_t step) const {
    if (!comparison) return 0;
    for (auto i = std::ranges::lower_bound(a.steps, step); i != a.steps.begin();) {
      if (*--i <= comparison->equal_step && b.find(*i)) return *i;
    }
    return 0;
  }
};

Digests compare_run_digests(const fs::path& a, const fs::path& b) {
  Digests digests{.a = read_digests(read_events_file(a)),
                  .b = read_digests(read_events_file(b)),
                  .comparison = {}};
  digests.comparison = compare_digests(digests.a, digests.b);
  return digests;
}

void print_comparison(const std::optional<DigestComparison>& found) {
  if (!found) {
    fmt::print("{}: the runs have no digests of the same tensors and steps\n", events_file_name);
    return;
  }
  if (found->equal_step > 0) {
    fmt::print("{}: the parameters are equal up to step {}\n", events_file_name,
               format_count(found->equal_step));
  }
  if (found->step > 0) {
    const std::size_t count = found->tensors.size();
    fmt::print("{}: step {}: {} {}\n", events_file_name, format_count(found->step),
               count == 1 ? std::string("1 tensor differs:")
                          : fmt::format("{} tensors differ, the first is", count),
               escaped(found->tensors.front()));
  }
}

/// The name of a parameter or buffer of a checkpoint; nullopt for other arrays.
std::optional<std::string_view> tensor_name(std::string_view path) {
  for (const std::string_view group : {"parameters/", "buffers/"}) {
    if (path.starts_with(group)) return path.substr(group.size());
  }
  return std::nullopt;
}

/// Prints a line if the digest of a tensor in a checkpoint differs from the digest that the run
/// recorded after the step. The tensor has then changed in memory or in the file.
void print_if_changed(const std::string& checkpoint, const ArrayStore& snapshot, std::uint64_t step,
                      const std::string& path, const DigestTable& recorded) {
  const auto name = tensor_name(path);
  const auto row = recorded.find(step);
  if (!name || !row || !snapshot.contains(path)) return;
  const auto tensor = std::ranges::find(recorded.names, *name);
  if (tensor == recorded.names.end()) return;
  const auto index = static_cast<std::size_t>(tensor - recorded.names.begin());
  if (digest_of_values(snapshot.at(path).bytes) == recorded.row(*row)[index]) return;
  fmt::print("  {}: this tensor has changed after step {} was computed: its digest in {} differs\n",
             escaped(checkpoint), format_count(step), events_file_name);
}

/// Compares the two checkpoints of each step, oldest step first, until they differ.
std::optional<FirstDifference> compare_checkpoints(const RunDirectory& a, const RunDirectory& b,
                                                   const std::vector<std::uint64_t>& steps,
                                                   const Digests& digests, bool all) {
  std::uint64_t equal_step = 0;
  for (const std::uint64_t step : steps) {
    const ArrayStore x = read_checkpoint(a.checkpoint_path(step));
    const ArrayStore y = read_checkpoint(b.checkpoint_path(step));
    if (step == steps.front()) print_config_differences(x, y);
    const auto differences = compare_arrays(x, y);
    print_differences(fmt::format("step {}", format_count(step)), differences, all);
    if (differences.empty()) {
      equal_step = step;
      continue;
    }
    const std::string& first = differences.front().path;
    print_if_changed(a.checkpoint_path(step).string(), x, step, first, digests.a);
    print_if_changed(b.checkpoint_path(step).string(), y, step, first, digests.b);
    if (tensor_name(first)) equal_step = std::max(equal_step, digests.last_equal_before(step));
    return FirstDifference{.equal_step = equal_step, .step = step, .tensor = first};
  }
  return std::nullopt;
}

/// The earlier of two differences, one found by digests and one by checkpoints. If both are at the
/// same step, returns the difference found by digests, which names the first tensor in the order of
/// the model.
std::optional<FirstDifference> earlier(const std::optional<DigestComparison>& digests,
                                       const std::optional<FirstDifference>& checkpoints) {
  const bool digests_differ = digests && digests->step > 0;
  if (!digests_differ || (checkpoints && checkpoints->step < digests->step)) return checkpoints;
  return FirstDifference{
      .equal_step = digests->equal_step, .step = digests->step, .tensor = digests->tensors.front()};
}

void print_first(const FirstDifference& first) {
  const bool exact = first.equal_step + 1 == first.step;
  fmt::print("first difference: {}, {}\n",
             exact ? fmt::format("step {}", format_count(first.step))
                   : fmt::format("in steps {} to {}", format_count(first.equal_step + 1),
                                 format_count(first.step)),
             escaped(first.tensor));
  if (!exact) fmt::print("hint: {}\n", exactness_hint);
}

/// Compares two runs by metrics.csv, the digests of events.jsonl and the checkpoints of the steps
/// that both have. Returns whether they differ.
bool compare_runs(const RunDirectory& a, const RunDirectory& b, bool all) {
  std::vector<std::uint64_t> steps;
  std::ranges::set_intersection(a.steps(), b.steps(), std::back_inserter(steps));
  const auto metrics_a = read_run_file(a.path() / "metrics.csv"),
             metrics_b = read_run_file(b.path() / "metrics.csv");
  const std::string x = metrics_a.value_or(""), y = metrics_b.value_or("");
  const bool metrics_differ = x != y;
  const Digests digests = compare_run_digests(a.path(), b.path());
  const bool has_difference = metrics_a && metrics_b && metrics_differ;
  if (steps.empty() && !digests.comparison && !has_difference) {
    throw CheckpointError(
        fmt::format(
            "{} and {}: found no step with checkpoints or digests in both runs, expected one",
            escaped(a.path().string()), escaped(b.path().string())),
        "name two checkpoints");
  }
  if (metrics_differ) print_metrics_difference(x, y);
  print_comparison(digests.comparison);
  if (steps.empty()) fmt::print("checkpoints: the runs have no checkpoints of the same step\n");
  const auto checkpoints = compare_checkpoints(a, b, steps, digests, all);
  const auto first = earlier(digests.comparison, checkpoints);
  if (first) print_first(*first);
  return first || metrics_differ;
}

bool is_folder(const std::string& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

ExitCode run(const Arguments& arguments) {
  bool differ = false;
  if (is_folder(arguments.a) && is_folder(arguments.b)) {
    differ = compare_runs(find_run(arguments.a), find_run(arguments.b), arguments.all);
  } else {
    const OpenedCheckpoint a = open_run(arguments.a), b = open_run(arguments.b);
    print_config_differences(a.arrays, b.arrays);
    const auto differences = compare_arrays(a.arrays, b.arrays);
    print_differences(fmt::format("{} and {}", escaped(a.path.string()), escaped(b.path.string())),
                      differences, arguments.all);
    differ = !differences.empty();
  }
  return differ ? ExitCode::failure : ExitCode::done;
}

void define(CLI::App& command, Arguments& arguments) {
  add_path(command, "A", arguments.a, "Run directory or checkpoint")->required();
  add_path(command, "B", arguments.b, "Run directory or checkpoint to compare with A")->required();
  command.add_flag("--all", arguments.all, "List all arrays that differ, not only the first");
  command.footer(
      "For two runs, compares metrics.csv, the digests of their parameters (events.jsonl, see\n"
      "train.digest_every) and the checkpoints of all steps that both have, oldest first. The\n"
      "last line names the first step and tensor that differ. The step is exact if both runs have\n"
      "digests of this step and the step before, as with train.digest_every=1. Numbers are equal\n"
      "if all their bits are equal. The exit code is 1 if anything but the config differs.\n"
      "Examples:\n  tapestry diff runs/a runs/b\n"
      "  tapestry diff runs/a/checkpoints/step-00001000.h5 runs/b/checkpoints/step-00001000.h5");
}

}  // namespace
}  // namespace diff_cli

extern const Command diff_command{
    .name = "diff",
    .purpose = "Compare two runs or checkpoints, down to the first tensor that differs",
    .define = with_arguments(diff_cli::define, diff_cli::run)};

}  // namespace tapestry
