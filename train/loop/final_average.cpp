// SPDX-License-Identifier: BSD-3-Clause
#include "train/loop/final_average.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "train/base/error.h"
#include "train/checkpoint/average.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checkpoint_file.h"
#include "train/checkpoint/metrics.h"
#include "train/checkpoint/open_run.h"
#include "train/checkpoint/training_state.h"
#include "train/config/load.h"
#include "train/models/trained_model.h"
#include "train/tasks/task.h"
#include "train/tasks/task_data.h"

namespace tapestry {
namespace {

/// An average of checkpoints, and the steps of these checkpoints.
struct Average {
  ArrayStore snapshot;
  std::vector<std::uint64_t> steps;
};

Average average_checkpoints(const RunDirectory& directory, const std::vector<std::uint64_t>& wanted,
                            Progress& progress) {
  CheckpointAverage average;
  std::vector<std::uint64_t> steps, missing;
  for (const std::uint64_t step : wanted) {
    std::error_code ignored;
    if (!std::filesystem::exists(directory.checkpoint_path(step), ignored)) {
      missing.push_back(step);
      continue;
    }
    try {
      average.add(read_checkpoint_of_run(directory, step));
      steps.push_back(step);
    } catch (const CheckpointError& error) {
      progress.message(fmt::format("warning: left out of the average: {}", error.what()));
    }
  }
  if (!missing.empty()) {
    progress.message(
        fmt::format("warning: left out of the average: the checkpoints of steps {}, which are not "
                    "in the run directory",
                    fmt::join(missing, ", ")));
  }
  if (steps.empty()) return {};
  return {average.result(), steps};
}

Scores validate(const ArrayStore& average, const Config& config, const Corpus& corpus) {
  const TrainedModel trained = load_model(average);
  return find_task(config).evaluate(
      *trained.model, config, batch_rules(config, corpus.target_vocabulary.size()),
      validation_set(corpus, trained.codec), config.train.exact_match_sequences);
}

/// A copy of `average` with this `value` of train.best_metric, instead of the best value of its
/// checkpoints, and with this train.average_last.
ArrayStore completed(const ArrayStore& average, double value, std::size_t average_last) {
  Config config = saved_config(average);
  config.train.average_last = average_last;
  ArrayStore result(average.origin());
  for (const auto& [path, array] : average) {
    if (path != "train/best_loss" && path != "config") result.put(path, array);
  }
  result.put_scalar("train/best_loss", value);
  result.put_text("config", dump_config(config));
  return result;
}

}  // namespace

bool lacks_final_average(const RunDirectory& directory, const Config& config,
                         std::uint64_t step) try {
  if (config.train.average_last == 0) return false;
  const auto average = read_final_average(directory, step);
  return !average || saved_config(*average).train.average_last != config.train.average_last;
} catch (const CheckpointError&) {
  return true;
}

bool has_unwanted_average(const RunDirectory& directory, const Config& config,
                          std::uint64_t step) try {
  return config.train.average_last == 0 && read_final_average(directory, step);
} catch (const CheckpointError&) {
  return false;
}

void write_final_average(const RunDirectory& directory, const Config& config, const Corpus& corpus,
                         std::uint64_t step, Progress& progress) {
  const auto [average, steps] =
      average_checkpoints(directory, steps_to_average(step, config.train), progress);
  if (steps.empty()) return;
  double value = std::numeric_limits<double>::infinity();
  std::string report;
  if (!corpus.validation.empty()) {
    // Uses the config of the checkpoints, so that the scores are comparable: `config` may have a
    // different best_metric.
    const Config of_checkpoints = saved_config(average);
    const std::string& metric = of_checkpoints.train.best_metric;
    const Scores scores = validate(average, of_checkpoints, corpus);
    value = score_value(scores, metric);
    const auto best = average.get_scalar<double>("train/best_loss");
    const bool is_used = !std::isfinite(best) || is_better(metric, value, best);
    report = fmt::format(": {}  ({} than the best checkpoint)",
                         find_task(config).format_scores(scores, of_checkpoints),
                         is_used ? "better" : "not better");
  }
  directory.require_lock();
  write_checkpoint(directory.average_path(), completed(average, value, config.train.average_last),
                   directory.files());
  progress.message(
      fmt::format("average of the checkpoints of steps {}{}", fmt::join(steps, ", "), report));
}

}  // namespace tapestry
