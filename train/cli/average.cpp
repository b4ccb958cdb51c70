// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "data/io/utf8.h"
#include "train/base/error.h"
#include "train/base/program.h"
#include "train/checkpoint/average.h"
#include "train/checkpoint/checkpoint_file.h"
#include "train/cli/command.h"

namespace tapestry {
namespace average_cli {
namespace {

struct Arguments {
  std::string output;               ///< the checkpoint to write
  std::vector<std::string> inputs;  ///< checkpoints, or one run directory
  std::optional<std::size_t> last;  ///< number of newest checkpoints to average
  std::optional<std::size_t> best;  ///< number of best checkpoints to average
  bool force = false;
};

std::vector<std::filesystem::path> chosen_checkpoints(const Arguments& arguments) {
  std::error_code ignored;
  const bool is_run =
      arguments.inputs.size() == 1 && std::filesystem::is_directory(arguments.inputs[0], ignored);
  const bool chooses = arguments.last || arguments.best;
  if (is_run != chooses) {
    throw UsageError(is_run ? fmt::format("{} is a run directory, expected --last N or --best N",
                                          arguments.inputs[0])
                            : "--last and --best need one run directory",
                     fmt::format("see `{} average --help`", program_name()));
  }
  const auto folder = std::ranges::find_if(arguments.inputs, [](const std::string& input) {
    std::error_code error;
    return std::filesystem::is_directory(input, error);
  });
  if (!is_run && folder != arguments.inputs.end()) {
    throw UsageError(
        fmt::format("{} is a folder, expected checkpoints or one run directory", escaped(*folder)),
        "name checkpoints, such as runs/copy/checkpoints/step-00001000.h5, or one run "
        "directory with --last N");
  }
  if (!is_run) return {arguments.inputs.begin(), arguments.inputs.end()};
  const RunDirectory run = find_run(arguments.inputs[0]);
  std::vector<std::filesystem::path> paths;
  for (const std::uint64_t step :
       arguments.last ? newest_steps(run, *arguments.last) : best_steps(run, *arguments.best)) {
    paths.push_back(run.checkpoint_path(step));
  }
  return paths;
}

void run(const Arguments& arguments) {
  require_output(arguments.output, arguments.force);
  CheckpointAverage average;
  const auto paths = chosen_checkpoints(arguments);
  for (const std::filesystem::path& path : paths) {
    average.add(read_checkpoint(path));
    fmt::print("{}\n", escaped(path.string()));
  }
  write_checkpoint(arguments.output, average.result());
  fmt::print("average of {} checkpoint{}: {}\n", paths.size(), paths.size() == 1 ? "" : "s",
             escaped(arguments.output));
}

void define(CLI::App& command, Arguments& arguments) {
  add_path(command, "OUTPUT", arguments.output,
           "Checkpoint to write; must not exist unless --force is given")
      ->required();
  add_path(command, "INPUTS", arguments.inputs,
           "Checkpoints with the same parameters, or one run directory")
      ->required();
  CLI::Option* const last = add_value(command, "--last", arguments.last, between(1, 1'000'000),
                                      "Number of newest checkpoints of the run to average");
  add_value(command, "--best", arguments.best, between(1, 1'000'000),
            "Number of checkpoints with the best train.best_metric to average")
      ->excludes(last);
  add_force(command, arguments.force);
  command.footer(
      "All commands except `train --resume` accept the average as a checkpoint. A run keeps its\n"
      "newest checkpoints (train.keep_last, train.average_last) and its best ones "
      "(train.keep_best).\n"
      "Examples:\n  tapestry average average.h5 runs/multi30k --best 3\n"
      "  tapestry average average.h5 runs/a/checkpoints/step-00004000.h5 "
      "runs/b/checkpoints/step-00004000.h5");
}

}  // namespace
}  // namespace average_cli

extern const Command average_command{
    .name = "average",
    .purpose = "Average the parameters of checkpoints",
    .define = with_arguments(average_cli::define, average_cli::run)};

}  // namespace tapestry
