// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <ctime>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "data/io/utf8.h"
#include "train/base/error.h"
#include "train/base/format.h"
#include "train/checkpoint/run_state.h"
#include "train/cli/command.h"

namespace tapestry {
namespace runs_cli {
namespace {

struct Arguments {
  std::string folder = "runs";
  bool json = false;
};

std::string when(const RunState& run) {
  std::tm local{};
  if (!run.changed || ::localtime_r(&*run.changed, &local) == nullptr) return "";
  return fmt::format("{:%Y-%m-%d %H:%M}", local);
}

std::string best(const RunState& run) {
  if (!run.best) return "";
  return fmt::format("{} {} at step {}", run.metric, format_value(*run.best, 4),
                     format_count(*run.best_step));
}

using Row = std::array<std::string, 5>;

std::array<std::size_t, 5> column_widths(const std::vector<Row>& rows) {
  std::array<std::size_t, 5> widths{};
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], display_columns(row[i]));
  }
  return widths;
}

void print_table(const std::vector<RunState>& runs) {
  std::vector<Row> rows = {{"run", "state", "step", "best", "last change"}};
  for (const RunState& run : runs) {
    rows.push_back({escaped(run.path.string()), std::string(phase_name(run.phase)),
                    fmt::format("{}/{}", run.step, run.steps), best(run), when(run)});
  }
  const auto widths = column_widths(rows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    fmt::print("{}  {}  {:>{}}  {}  {}\n", padded(rows[i][0], widths[0]),
               padded(rows[i][1], widths[1]), rows[i][2], widths[2], padded(rows[i][3], widths[3]),
               rows[i][4]);
    if (i == 0) continue;
    const RunState& run = runs[i - 1];
    if (!run.problem.empty()) fmt::print("  {}\n", escaped(run.problem));
  }
}

Json to_json(const std::vector<RunState>& runs) {
  Json json = Json::array();
  for (const RunState& run : runs) {
    json.push_back({{"run", run.path.string()},
                    {"state", phase_name(run.phase)},
                    {"holder", run.holder},
                    {"step", run.step},
                    {"steps", run.steps},
                    {"metric", run.metric},
                    {"best", or_null(run.best)},
                    {"best_step", or_null(run.best_step)},
                    {"problem", run.problem}});
  }
  return json;
}

void run(const Arguments& arguments) {
  std::error_code error;
  if (!std::filesystem::is_directory(arguments.folder, error)) {
    throw UsageError(fmt::format("{}: expected a folder with runs", escaped(arguments.folder)),
                     "name the folder where `train` writes its run directories, such as runs");
  }
  std::vector<RunState> runs;
  for (const auto& path : find_runs(arguments.folder)) runs.push_back(read_run_state(path));
  if (arguments.json) {
    print_json(to_json(runs));
  } else if (runs.empty()) {
    fmt::print("no runs in {}\n", escaped(arguments.folder));
  } else {
    print_table(runs);
  }
}

void define(CLI::App& command, Arguments& arguments) {
  add_path(command, "FOLDER", arguments.folder, "Folder with run directories, or one run")
      ->capture_default_str();
  add_json(command, arguments.json);
  command.footer(
      "A run is running, finished, failed (its error is shown) or stopped. The step is the last "
      "in\n"
      "the log of the run; a stopped run resumes from its newest checkpoint, which may be "
      "earlier.\n"
      "The best value of train.best_metric is updated at each save.\n"
      "Example:\n  tapestry runs runs");
}

}  // namespace
}  // namespace runs_cli

extern const Command runs_command{.name = "runs",
                                  .purpose = "List runs with state, step and best score",
                                  .define = with_arguments(runs_cli::define, runs_cli::run)};

}  // namespace tapestry
