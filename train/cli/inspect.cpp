// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include "autograd/tensor.h"
#include "data/io/file.h"
#include "data/io/utf8.h"
#include "train/base/error.h"
#include "train/base/format.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/metrics.h"
#include "train/checkpoint/open_run.h"
#include "train/checkpoint/run_directory.h"
#include "train/cli/command.h"
#include "train/models/model_summary.h"
#include "train/recording/weights.h"
#include "train/tasks/task.h"

namespace tapestry {
namespace inspect_cli {
namespace {

// ---- Arrays.

/// Statistics of an array of floats.
struct Statistics {
  double mean, deviation;
  WeightStatistics distribution;  ///< norm, and a histogram of ten intervals
};

/// values  not empty
template <class T>
Statistics statistics(std::span<const T> values) {
  const auto count = static_cast<double>(values.size());
  double sum = 0.0, squares = 0.0;
  for (const T value : values) sum += static_cast<double>(value);
  const double mean = sum / count;
  for (const T value : values) {
    squares += (static_cast<double>(value) - mean) * (static_cast<double>(value) - mean);
  }
  const DType dtype = std::is_same_v<T, float> ? DType::float32 : DType::float64;
  const Tensor tensor = Tensor::from({values.size()}, values, dtype);
  return {mean, std::sqrt(squares / count), weight_statistics(std::span(&tensor, 1), 10)};
}

/// Calls `single` with the value of an array of one number, or `several` with the statistics of an
/// array of several floats. Calls neither function for other arrays.
void visit(const ArrayStore& snapshot, const std::string& path, const auto& single,
           const auto& several) {
  const auto visit_values = [&](const auto& values) {
    if (values.size() == 1) return single(values.front());
    if constexpr (std::is_floating_point_v<std::decay_t<decltype(values.front())>>) {
      if (!values.empty()) several(statistics(values));
    }
  };
  const ElementType type = snapshot.at(path).type;
  if (type == ElementType::float32) visit_values(snapshot.get<float>(path));
  if (type == ElementType::float64) visit_values(snapshot.get<double>(path));
  if (type == ElementType::uint64) visit_values(snapshot.get<std::uint64_t>(path));
}

/// Returns a digit for each interval: 0 if the interval is empty, else 1 to 9 in proportion to the
/// largest count.
std::string digits(const Histogram& histogram) {
  std::string text;
  if (histogram.counts.empty()) return text;
  const auto largest = static_cast<double>(std::ranges::max(histogram.counts));
  for (const std::uint64_t count : histogram.counts) {
    const double level = std::ceil(9.0 * static_cast<double>(count) / largest);
    text += static_cast<char>('0' + static_cast<int>(level));
  }
  return text;
}

std::string summary(const ArrayStore& snapshot, const std::string& path) {
  std::string text;
  visit(
      snapshot, path, [&](const auto& value) { text = fmt::format("{}", value); },
      [&](const Statistics& array) {
        const WeightStatistics& all = array.distribution;
        text = fmt::format("mean {:+.3e}  deviation {:.3e}  norm {:.3e}  {:+.2e} [{}] {:+.2e}",
                           array.mean, array.deviation, all.norm, all.low, digits(all.histogram),
                           all.high);
      });
  return text;
}

void add_summary(Json& json, const ArrayStore& snapshot, const std::string& path) {
  visit(
      snapshot, path, [&](const auto& value) { json["value"] = value; },
      [&](const Statistics& array) {
        const WeightStatistics& all = array.distribution;
        json["mean"] = array.mean;
        json["deviation"] = array.deviation;
        json["norm"] = all.norm;
        json["zeros"] = all.zeros;
        json["not_finite"] = all.not_finite;
        json["histogram"] = {
            {"low", all.low}, {"high", all.high}, {"counts", all.histogram.counts}};
      });
}

// ---- Checkpoints.

/// A row in the list of a run's checkpoints.
struct ListedCheckpoint {
  std::uint64_t step;
  std::filesystem::path path;
  std::uint64_t bytes;
  std::optional<double> validation_loss;
  bool best, newest;
};

/// The checkpoints of a run directory, oldest first; empty for a checkpoint file.
///
/// throws  CheckpointError if the newest checkpoint cannot be read.
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

void print_checkpoints(const std::vector<ListedCheckpoint>& list) {
  if (list.empty()) return;
  fmt::print("{:>10}  {:>9}  {:>15}\n", "checkpoint", "size", "validation loss");
  for (const ListedCheckpoint& each : list) {
    const std::string loss = each.validation_loss ? format_value(*each.validation_loss, 4) : "";
    fmt::print("{:>10}  {:>9}  {:>15}{}{}\n", each.step, format_bytes(each.bytes), loss,
               each.best ? "  best" : "", each.newest ? "  newest" : "");
  }
  fmt::print("\n");
}

Json to_json(const std::vector<ListedCheckpoint>& list) {
  Json json = Json::array();
  for (const ListedCheckpoint& each : list) {
    json.push_back({{"step", each.step},
                    {"checkpoint", each.path.string()},
                    {"bytes", each.bytes},
                    {"validation_loss", or_null(each.validation_loss)},
                    {"best", each.best},
                    {"newest", each.newest}});
  }
  return json;
}

// ---- Model and numbers.

/// The parameters among the arrays of a checkpoint, in the order of the checkpoint.
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

/// The parameters of the model of a checkpoint. If this program can create the model, they are in
/// the order of the model, and frozen parameters are marked. Otherwise they are in the order of the
/// checkpoint.
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

/// The digest of the names and bytes of all arrays except texts: equal for runs with bit-identical
/// parameters, optimizer state and counters, independent of config and program version.
std::uint64_t digest_of_numbers(const ArrayStore& snapshot) {
  Xxh3 digest;
  for (const auto& [name, array] : snapshot) {
    if (array.type == ElementType::uint8) continue;
    digest.add(name.data(), name.size());
    digest.add(array.bytes.data(), array.bytes.size());
  }
  return digest.value();
}

/// Whether save_parameters() has written the file. Such a file has no training state and no config.
bool is_parameter_file(const ArrayStore& snapshot) {
  return !snapshot.contains("train/step") && !snapshot.contains("config");
}

// ---- Output.

void print_text(const OpenedCheckpoint& opened, const std::vector<ListedCheckpoint>& checkpoints) {
  const auto& [path, snapshot, choice] = opened;
  const std::string version = snapshot.get_text("program_version");
  const bool of_run = !is_parameter_file(snapshot);
  const std::string kind =
      of_run ? fmt::format("step {}", snapshot.get_scalar<std::uint64_t>("train/step"))
             : "parameters of a custom program (save_parameters)";
  fmt::print("{}: {}, {} arrays, {:.1f} MB, written by version {}\n", escaped(path.string()), kind,
             snapshot.size(), static_cast<double>(snapshot.byte_size()) / 1e6, escaped(version));
  if (!choice.empty()) fmt::print("({})\n", choice);
  fmt::print("digest of all numbers: {:016x}\n", digest_of_numbers(snapshot));
  if (const std::string id = saved_run_id(snapshot); !id.empty()) {
    fmt::print("run id: {}\n", escaped(id));
  }
  if (const std::string saved = saved_arithmetic(snapshot); !saved.empty()) {
    fmt::print("computed with {}\n", escaped(saved));
  }
  fmt::print("\n");
  print_checkpoints(checkpoints);
  fmt::print("{}\n", escaped_lines(to_table(summarize(model_parameters(snapshot)))));
  std::size_t width = 0;
  for (const auto& [name, array] : snapshot) width = std::max(width, name.size());
  for (const auto& [name, array] : snapshot) {
    fmt::print("{:<{}} {:<8} {:<16} {}\n", escaped(name), width, element_type_name(array.type),
               to_string(array.shape), summary(snapshot, name));
  }
  if (const std::string history = saved_history(snapshot); !history.empty()) {
    fmt::print("\nhistory:\n{}", escaped_lines(history));
  }
  if (of_run) fmt::print("\nconfig:\n{}", escaped_lines(snapshot.get_text("config")));
}

void print_json(const OpenedCheckpoint& opened, const std::vector<ListedCheckpoint>& checkpoints) {
  const ArrayStore& snapshot = opened.arrays;
  const bool of_run = !is_parameter_file(snapshot);
  Json arrays = Json::array();
  for (const auto& [name, array] : snapshot) {
    Json json = {{"name", name}, {"type", element_type_name(array.type)}, {"shape", array.shape}};
    add_summary(json, snapshot, name);
    arrays.push_back(std::move(json));
  }
  const Json json = {
      {"checkpoint", opened.path.string()},
      {"choice", opened.choice},
      {"step", of_run ? Json(snapshot.get_scalar<std::uint64_t>("train/step")) : Json(nullptr)},
      {"program_version", snapshot.get_text("program_version")},
      {"bytes", snapshot.byte_size()},
      {"digest", fmt::format("{:016x}", digest_of_numbers(snapshot))},
      {"run_id", saved_run_id(snapshot)},
      {"arithmetic", saved_arithmetic(snapshot)},
      {"history", saved_history(snapshot)},
      {"config", of_run ? Json(snapshot.get_text("config")) : Json(nullptr)},
      {"model", to_json(summarize(model_parameters(snapshot)))},
      {"checkpoints", to_json(checkpoints)},
      {"arrays", std::move(arrays)}};
  tapestry::print_json(json);
}

struct Arguments {
  std::string run;  ///< a run directory or a checkpoint
  bool json = false;
};

void run(const Arguments& arguments) {
  const OpenedCheckpoint opened = open_run(arguments.run);
  const std::vector<ListedCheckpoint> checkpoints = list_checkpoints(arguments.run);
  (arguments.json ? print_json : print_text)(opened, checkpoints);
}

void define(CLI::App& command, Arguments& arguments) {
  add_run(command, arguments.run);
  add_json(command, arguments.json);
  command.footer(
      "Arrays of floats are listed with mean, standard deviation, norm and a histogram: the "
      "minimum,\n"
      "the counts of ten equal intervals as digits from 0 (no value) to 9 (most values), and the\n"
      "maximum.\n"
      "Examples:\n  tapestry inspect runs/copy\n"
      "  tapestry inspect runs/copy/checkpoints/step-00002500.h5 --json");
}

}  // namespace
}  // namespace inspect_cli

extern const Command inspect_command{
    .name = "inspect",
    .purpose = "List the checkpoints of a run and the contents of a checkpoint",
    .define = with_arguments(inspect_cli::define, inspect_cli::run)};

}  // namespace tapestry
