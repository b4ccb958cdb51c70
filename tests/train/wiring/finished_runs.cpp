// SPDX-License-Identifier: BSD-3-Clause
#include "tests/train/wiring/finished_runs.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <utility>

#include "tests/support/threads.h"
#include "train/base/error.h"
#include "train/checkpoint/checkpoint_file.h"
#include "train/checkpoint/run_directory.h"
#include "train/loop/progress.h"
#include "train/loop/trainer.h"
#include "train/tasks/data_source.h"

namespace tapestry::test {
namespace {

const std::string parameters_group = "parameters/";

/// A file system without fsync, since fsync would take most of the time.
class UnsyncedFiles : public FileSystem {
 public:
  int fsync(int) override { return 0; }
};

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells(1);
  for (const char c : line) {
    if (c == ',') {
      cells.emplace_back();
    } else {
      cells.back() += c;
    }
  }
  return cells;
}

}  // namespace

Finished finished(const Workplace& work, const std::string& run_dir, Outcome outcome) {
  Finished run{.outcome = std::move(outcome),
               .metrics = read_text(work / (run_dir + "/metrics.csv")),
               .checkpoints = {}};
  const RunDirectory directory(work / run_dir);
  for (const std::uint64_t step : directory.steps()) {
    run.checkpoints.emplace(step, read_checkpoint(directory.checkpoint_path(step)));
  }
  return run;
}

Finished train(const TaskWorkplace& work, const TaskCase& task,
               const std::vector<std::string>& overrides) {
  const std::string run_dir = "runs/" + task.name();
  std::filesystem::remove_all(work / run_dir);
  std::vector<std::string> arguments = {"train", task.name() + ".yaml"};
  arguments.insert(arguments.end(), overrides.begin(), overrides.end());
  return finished(work, run_dir, work.run(arguments));
}

Finished train_here(const TaskWorkplace& work, const TaskCase& task,
                    const std::vector<std::string>& overrides) {
  const std::string run_dir = "here/" + task.name();
  std::filesystem::remove_all(work / run_dir);
  std::filesystem::create_directories(work / "here");
  const Config config = work.config(task, overrides);
  const test::Threads threads(config.train.threads);
  const Corpus corpus = load_corpus(config.data);
  UnsyncedFiles files;
  RunDirectory directory(work / run_dir, files);
  directory.create();
  Outcome outcome{.code = 0, .out = "\n", .err = ""};
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* const screen = ::open_memstream(&text, &size);
  try {
    Progress progress(screen, 0, config.train.steps);
    Trainer(config, corpus, directory, progress).run();
  } catch (const NumericError& error) {
    outcome.code = 6;
    outcome.err = error.what();
  }
  std::fclose(screen);
  outcome.out += text;
  std::free(text);
  return finished(work, run_dir, outcome);
}

Values weights_in(const ArrayStore& checkpoint) {
  Values values;
  for (const auto& [path, array] : checkpoint) {
    if (!path.starts_with(parameters_group)) continue;
    std::vector<double>& to = values[path.substr(parameters_group.size())];
    if (array.type == ElementType::float64) {
      const auto from = checkpoint.get<double>(path);
      to.assign(from.begin(), from.end());
    } else {
      const auto from = checkpoint.get<float>(path);
      to.assign(from.begin(), from.end());
    }
  }
  return values;
}

double distance(const Values& a, const Values& b) {
  if (a.size() != b.size()) return INFINITY;
  double worst = 0.0;
  for (const auto& [name, values] : a) {
    const auto other = b.find(name);
    if (other == b.end() || other->second.size() != values.size()) return INFINITY;
    for (std::size_t i = 0; i < values.size(); ++i) {
      worst = std::max(worst, std::abs(values[i] - other->second[i]));
    }
  }
  return worst;
}

std::vector<std::map<std::string, std::string>> rows_in(const Finished& run,
                                                        const std::string& split) {
  std::istringstream lines(run.metrics);
  std::string line;
  std::getline(lines, line);
  const std::vector<std::string> names = cells_of(line);
  std::vector<std::map<std::string, std::string>> rows;
  while (std::getline(lines, line)) {
    const std::vector<std::string> cells = cells_of(line);
    std::map<std::string, std::string> row;
    for (std::size_t i = 0; i < names.size(); ++i) row[names[i]] = cells.at(i);
    if (row.at("split") == split) rows.push_back(row);
  }
  return rows;
}

}  // namespace tapestry::test
