#include "train/models/checkpoint_contents.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <system_error>

#include "data/io/file.h"
#include "train/base/error.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/metrics.h"
#include "train/checkpoint/open_run.h"
#include "train/checkpoint/run_directory.h"
#include "train/config/config.h"
#include "train/tasks/task.h"

namespace tapestry {
namespace {

/// The parameters of the arrays of a checkpoint, in their order.
std::vector<ParameterShape> stored_parameters(const ArrayStore& snapshot) {
  const std::string group = "parameters/";
  std::vector<ParameterShape> parameters;
  for (const auto& [name, array] : snapshot) {
    if (!name.starts_with(group)) continue;
    const std::vector<std::size_t> extents(array.shape.begin(), array.shape.end());
    parameters.push_back({.name = name.substr(group.size()), .shape = Shape(extents)});
  }
  return parameters;
}

}  // namespace

std::vector<ListedCheckpoint> list_checkpoints(const std::string& run) {
  std::error_code error;
  if (!std::filesystem::is_directory(run, error)) return {};
  const RunDirectory directory = find_run(run);
  const auto newest = read_newest_of_run(directory);
  if (!newest) return {};
  const std::string csv = newest->arrays.get_text("train/metrics");
  require_metrics(csv, newest->path.string() + ": train/metrics");
  const auto losses = validation_values(csv, "loss");
  const bool has_best = std::isfinite(newest->arrays.get_scalar<double>("train/best_loss"));
  const auto best = newest->arrays.get_scalar<std::uint64_t>("train/best_step");
  std::vector<ListedCheckpoint> list;
  for (const std::uint64_t step : directory.steps()) {
    const auto path = directory.checkpoint_path(step);
    const std::uintmax_t bytes = std::filesystem::file_size(path, error);
    const auto loss = losses.find(step);
    list.push_back(
        {.step = step,
         .path = path,
         .bytes = error ? 0 : bytes,
         .validation_loss = loss == losses.end() ? std::nullopt : std::optional(loss->second),
         .best = has_best && step == best,
         .newest = step == newest->step});
  }
  return list;
}

std::vector<ParameterShape> model_parameters(const ArrayStore& snapshot) {
  std::vector<ParameterShape> stored = stored_parameters(snapshot);
  std::vector<ParameterShape> made;
  try {
    const Config config = saved_config(snapshot);
    const FixedVocabularies words = saved_vocabularies(snapshot);
    Parameters parameters = Parameters::without_values(config.train.dtype);
    const auto network = network_maker(
        config, network_sizes(config, words.source, *words.target))(Scope(parameters));
    made = parameter_shapes(parameters);
  } catch (const UserError&) {
    return stored;
  }
  std::vector<ParameterShape> sorted = made;
  std::ranges::sort(sorted, {}, &ParameterShape::name);
  std::ranges::sort(stored, {}, &ParameterShape::name);
  const bool same = std::ranges::equal(sorted, stored,
                                       [](const ParameterShape& one, const ParameterShape& other) {
                                         return one.name == other.name && one.shape == other.shape;
                                       });
  return same ? made : stored;
}

std::uint64_t digest_of_numbers(const ArrayStore& snapshot) {
  Xxh3 digest;
  for (const auto& [name, array] : snapshot) {
    if (array.type == ElementType::uint8) continue;
    digest.add(name.data(), name.size());
    digest.add(array.bytes.data(), array.bytes.size());
  }
  return digest.value();
}

bool is_parameter_file(const ArrayStore& snapshot) {
  return !snapshot.contains("train/step") && !snapshot.contains("config");
}

}  // namespace tapestry
