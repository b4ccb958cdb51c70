// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "autograd/kernels/parallel.h"
#include "data/io/utf8.h"
#include "train/base/format.h"
#include "train/checkpoint/run_directory.h"
#include "train/cli/command.h"
#include "train/models/held_out_results.h"
#include "train/report/report_data.h"
#include "train/system/standard_streams.h"

namespace tapestry {
namespace report_cli {
namespace {

struct Arguments {
  std::vector<std::string> runs;  ///< run directories or checkpoints
  std::string output;             ///< empty: default_output()
  bool force = false;
  ReportOptions options;
  std::size_t threads = 0;
};

/// report.html in the directory of a single run, otherwise in the working folder.
std::filesystem::path default_output(const std::vector<std::string>& runs) {
  std::error_code ignored;
  const bool one = runs.size() == 1 && std::filesystem::is_directory(runs.front(), ignored);
  return one ? find_run(runs.front()).path() / report_file_name
             : std::filesystem::path(report_file_name);
}

void run(const Arguments& arguments) {
  set_num_threads(arguments.threads);
  std::filesystem::path output = arguments.output;
  if (output.empty()) output = default_output(arguments.runs);
  require_output(output.string(), arguments.force || arguments.output.empty());
  ReportData data(arguments.options);
  for (const std::string& path : arguments.runs) data.add(path);
  for (const std::string& note : data.notes()) warn(note);
  const std::size_t bytes = write_report(data, output);
  fmt::print("{}: {}\n", escaped(output.string()), format_bytes(bytes));
}

void define(CLI::App& command, Arguments& arguments) {
  add_path(command, "RUN", arguments.runs, "Run directories or checkpoints")->required();
  add_path(
      command, "--output", arguments.output,
      "File to write, which must not exist unless --force is given; default: report.html in the "
      "directory of a single run, otherwise in the working folder, replaced if it exists")
      ->type_name("FILE");
  add_force(command, arguments.force);
  command
      .add_option("--set", arguments.options.set,
                  "Held-out set for examples, accuracy and attention")
      ->check(one_of({validation_name, test_name}))
      ->capture_default_str();
  add_value(command, "--examples", arguments.options.examples, between(0, 10'000),
            "Number of held-out examples per run to show with the model's outputs");
  add_value(command, "--attention", arguments.options.attention, between(0, 100),
            "Number of held-out examples per run to show with the weights of all attention heads");
  add_threads(command, arguments.threads);
  command.footer(
      "The file needs no other files and no network: open it in a browser. It shows the curves of "
      "all runs in\nthe same charts, the config keys that differ, mean and standard deviation of "
      "runs that differ only in\ntheir seeds, and for each run held-out examples, accuracy, "
      "attention, weights and its history. Parts\nwhose data files or checkpoint cannot be used "
      "are left out, with a warning.\n"
      "Examples:\n  tapestry report runs/copy\n"
      "  tapestry report runs/seed1 runs/seed2 runs/seed3 --output seeds.html");
}

}  // namespace
}  // namespace report_cli

extern const Command report_command{
    .name = "report",
    .purpose = "Write an HTML file about runs: curves, examples, attention, weights",
    .define = with_arguments(report_cli::define, report_cli::run)};

}  // namespace tapestry
