// SPDX-License-Identifier: BSD-3-Clause
#include "train/checkpoint/average.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "train/base/error.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checkpoint_file.h"
#include "train/checkpoint/metrics.h"
#include "train/checkpoint/open_run.h"
#include "train/checkpoint/parameter_file.h"
#include "train/checkpoint/run_id.h"
#include "train/checkpoint/training_state.h"
#include "train/config/difference.h"

namespace tapestry {
namespace {

/// The path of an array in the averaged checkpoint; empty for an array that is not averaged.
///
/// group  group of the averaged parameters
std::string averaged_path(const std::string& path, const std::string& group) {
  if (path.starts_with(buffers_group)) return path;
  return path.starts_with(group) ? parameters_group + path.substr(group.size()) : "";
}

/// Adds the values of an array to `sums`. `sums` is empty for the first array.
void add_values(const StoredArray& array, std::vector<double>& sums) {
  visit_elements(array, [&sums](const auto& values) {
    sums.resize(values.size(), -0.0);  // -0.0 + x is bit-identical to x, even for x = -0.0
    std::ranges::transform(values, sums, sums.begin(),
                           [](auto value, double sum) { return sum + static_cast<double>(value); });
  });
}

/// Returns sums / count as an array with the type and shape of `like`.
StoredArray mean(const std::vector<double>& sums, double count, const StoredArray& like) {
  return visit_elements(like, [&]<class T>(std::span<const T>) {
    std::vector<T> values;
    for (const double sum : sums) values.push_back(static_cast<T>(sum / count));
    const auto bytes = std::as_bytes(std::span(values));
    return StoredArray{like.type, like.shape, {bytes.begin(), bytes.end()}};
  });
}

/// place  the file and the array, for the message
void require_finite(const StoredArray& array, const std::string& place) {
  visit_elements(array, [&](const auto& values) {
    const auto wrong =
        std::ranges::find_if(values, [](auto x) { return !std::isfinite(static_cast<double>(x)); });
    if (wrong == values.end()) return;
    throw NumericError(fmt::format("{}: element {} is {}, expected finite numbers", place,
                                   wrong - values.begin(), std::abs(static_cast<double>(*wrong))),
                       "leave out this checkpoint, or average earlier checkpoints");
  });
}

[[noreturn]] void reject(const ArrayStore& checkpoint, const std::string& what) {
  throw CheckpointError(fmt::format("{}: {}", checkpoint.origin(), what),
                        "average checkpoints of one run, or of runs with the same config");
}

/// Whether a key of the section `model` affects only training.
bool is_of_training_only(const std::string& key) {
  return key.ends_with("dropout") || key == "model.stochastic_depth";
}

/// Rejects a checkpoint whose config differs from `first` in a key that changes the model.
void require_same_model(const ArrayStore& first, const ArrayStore& checkpoint) {
  for (const auto& [key, before, now] :
       compare_configs(saved_config(first), saved_config(checkpoint))) {
    if (!key.starts_with("model.") || is_of_training_only(key)) continue;
    reject(checkpoint,
           fmt::format("{} is {}, expected {} as in {}", key, now, before, first.origin()));
  }
}

/// Rejects a checkpoint whose vocabularies or subword models differ from those of `first`.
void require_same_vocabularies(const ArrayStore& first, const ArrayStore& checkpoint) {
  for (const char* path : {"data/source_vocabulary", "data/target_vocabulary",
                           "data/source_subwords", "data/target_subwords"}) {
    const bool exists = first.contains(path);
    if (checkpoint.contains(path) == exists && (!exists || checkpoint.at(path) == first.at(path))) {
      continue;
    }
    reject(checkpoint, fmt::format("{} differs from {}", path, first.origin()));
  }
}

/// Removes steps without a checkpoint from `steps`.
std::vector<std::uint64_t> saved_ones(const RunDirectory& run, std::vector<std::uint64_t> steps) {
  const std::vector<std::uint64_t> saved = run.steps();
  std::erase_if(steps,
                [&](std::uint64_t step) { return !std::ranges::binary_search(saved, step); });
  return steps;
}

/// The newest checkpoint of a run. Throws CheckpointError if the run has fewer than `count`.
NewestCheckpoint newest_checkpoint(const RunDirectory& run, std::size_t count) {
  auto newest = read_newest_of_run(run);
  const std::size_t found = run.steps().size();
  if (newest && found >= count) return *std::move(newest);
  throw CheckpointError(fmt::format("{}: found {} checkpoint{}, expected {} or more",
                                    run.path().string(), found, found == 1 ? "" : "s", count),
                        fmt::format("average fewer, or train with train.average_last={}", count));
}

}  // namespace

void CheckpointAverage::add(const ArrayStore& checkpoint) {
  const std::string group = inference_group(checkpoint);
  if (!steps_.empty()) require_same_arrays(checkpoint, group);
  ArrayStore rest(checkpoint.origin());
  for (const auto& [path, array] : checkpoint) {
    const std::string to = averaged_path(path, group);
    if (!to.empty()) {
      require_finite(array, fmt::format("{}: {}", checkpoint.origin(), path));
      rest.put(to, array);
      add_values(array, sums_[to]);
    } else if (!path.starts_with(optimizer_group) && !path.starts_with(parameters_group)) {
      rest.put(path, array);
    }
  }
  steps_.push_back(saved_step(checkpoint));
  rest_ = std::move(rest);
}

/// Rejects a checkpoint that cannot be averaged with the previous checkpoints.
void CheckpointAverage::require_same_arrays(const ArrayStore& checkpoint,
                                            const std::string& group) const {
  require_same_vocabularies(rest_, checkpoint);
  require_same_model(rest_, checkpoint);
  std::size_t averaged = 0;
  for (const auto& [path, array] : checkpoint) {
    const std::string to = averaged_path(path, group);
    if (to.empty()) continue;
    ++averaged;
    const StoredArray* before = rest_.contains(to) ? &rest_.at(to) : nullptr;
    if (before != nullptr && before->shape == array.shape && before->type == array.type) continue;
    reject(checkpoint, fmt::format("{} is missing in {} or has a different shape or type there",
                                   path, rest_.origin()));
  }
  if (averaged != sums_.size()) {
    reject(checkpoint, fmt::format("found {} parameter arrays, expected {} as in {}", averaged,
                                   sums_.size(), rest_.origin()));
  }
}

ArrayStore CheckpointAverage::result() const {
  if (steps_.empty()) throw std::logic_error("CheckpointAverage: nothing was added");
  const auto count = static_cast<double>(steps_.size());
  ArrayStore average(rest_.origin());
  for (const auto& [path, array] : rest_) {
    if (const auto sums = sums_.find(path); sums != sums_.end()) {
      StoredArray averaged = mean(sums->second, count, array);
      require_finite(averaged, fmt::format("the average of {} checkpoints: {}", count, path));
      average.put(path, std::move(averaged));
    } else if (path == "train/history") {
      average.put_text(path, fmt::format("{}average of the checkpoints of steps {}\n",
                                         rest_.get_text(path), fmt::join(steps_, ", ")));
    } else {
      average.put(path, array);
    }
  }
  return average;
}

std::optional<ArrayStore> read_final_average(const RunDirectory& run, std::uint64_t step) {
  std::error_code ignored;
  if (!std::filesystem::exists(run.average_path(), ignored)) return std::nullopt;
  ArrayStore average = read_checkpoint(run.average_path());
  const auto run_id = recorded_run_id(run);
  const bool is_of_run = !run_id || saved_run_id(average) == *run_id;
  return is_of_run && saved_step(average) == step ? std::optional(std::move(average))
                                                  : std::nullopt;
}

std::vector<std::uint64_t> newest_steps(const RunDirectory& run, std::size_t count) {
  const NewestCheckpoint newest = newest_checkpoint(run, count);
  TrainOptions train = saved_config(newest.arrays).train;
  if (count <= train.keep_last) {
    const std::vector<std::uint64_t> saved = run.steps();
    return {saved.end() - static_cast<std::ptrdiff_t>(count), saved.end()};
  }
  train.average_last = std::min(count, train.average_last);
  const auto steps = saved_ones(run, steps_to_average(newest.step, train));
  if (steps.size() == count) return steps;
  throw CheckpointError(
      fmt::format("{}: found the {} newest checkpoints (train.keep_last, train.average_last), "
                  "expected {} or more",
                  run.path().string(), std::max(train.keep_last, steps.size()), count),
      fmt::format("average fewer, or train with train.average_last={}", count));
}

std::vector<std::uint64_t> best_steps(const RunDirectory& run, std::size_t count) {
  const NewestCheckpoint newest = newest_checkpoint(run, 1);
  const std::string metric = saved_config(newest.arrays).train.best_metric;
  const std::string csv = newest.arrays.get_text("train/metrics");
  require_metrics(csv, newest.path.string() + ": train/metrics");
  std::vector<std::uint64_t> steps = saved_ones(run, best_validations(csv, metric));
  if (steps.size() < count) {
    throw CheckpointError(
        fmt::format("{}: found {} checkpoint{} with a validation {}, expected {} "
                    "or more",
                    run.path().string(), steps.size(), steps.size() == 1 ? "" : "s", metric, count),
        fmt::format("average fewer, or train with train.keep_best={}", count));
  }
  steps.resize(count);
  std::ranges::sort(steps);
  return steps;
}

}  // namespace tapestry
