#include "train/models/model_summary.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "data/io/file.h"
#include "train/base/error.h"
#include "train/base/format.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/metrics.h"
#include "train/checkpoint/open_run.h"
#include "train/checkpoint/run_directory.h"
#include "train/config/config.h"
#include "train/tasks/task.h"

namespace tapestry {
namespace {

bool is_index(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

/// `encoder.layers` of `encoder.layers.0`; empty if the path does not end with a number.
std::string stack_path(const std::string& path) {
  const std::size_t dot = path.rfind('.');
  return dot != path.npos && is_index(std::string_view(path).substr(dot + 1)) ? path.substr(0, dot)
                                                                              : "";
}

bool alike(const ModelBlock& a, const ModelBlock& b) {
  return std::ranges::equal(
      a.tensors, b.tensors, [](const ParameterShape& one, const ParameterShape& other) {
        return one.name == other.name && one.shape == other.shape && one.frozen == other.frozen;
      });
}

/// Joins consecutive layers of a stack that are alike.
std::vector<ModelBlock> joined(std::vector<ModelBlock> single) {
  std::vector<ModelBlock> blocks;
  std::string first;  // the path of the first part of blocks.back()
  for (ModelBlock& block : single) {
    const std::string stack = stack_path(block.path);
    if (!blocks.empty() && !stack.empty() && stack_path(first) == stack &&
        alike(blocks.back(), block)) {
      ++blocks.back().count;
      blocks.back().path = first + "-" + block.path.substr(stack.size() + 1);
      continue;
    }
    first = block.path;
    blocks.push_back(std::move(block));
  }
  return blocks;
}

/// "all trainable" or "1,536 of them frozen"
std::string describe_frozen(const ModelSummary& summary) {
  return summary.frozen == 0 ? "all trainable"
                             : fmt::format("{} trainable, {} frozen",
                                           format_count(summary.parameters - summary.frozen),
                                           format_count(summary.frozen));
}

}  // namespace

std::string block_path(const std::string& name) {
  for (std::size_t begin = 0; begin < name.size();) {
    const std::size_t end = std::min(name.find('.', begin), name.size());
    if (begin > 0 && end < name.size() &&
        is_index(std::string_view(name).substr(begin, end - begin))) {
      return name.substr(0, end);
    }
    begin = end + 1;
  }
  const std::size_t dot = name.rfind('.');
  return dot == name.npos ? name : name.substr(0, dot);
}

std::vector<ParameterShape> parameter_shapes(const Parameters& parameters) {
  std::vector<ParameterShape> shapes;
  for (const NamedTensor& parameter : parameters) {
    shapes.push_back({.name = parameter.name,
                      .shape = parameter.tensor.shape(),
                      .frozen = !parameter.tensor.requires_gradient()});
  }
  return shapes;
}

ModelSummary summarize(std::span<const ParameterShape> parameters) {
  ModelSummary summary;
  std::vector<ModelBlock> single;
  for (const ParameterShape& parameter : parameters) {
    const std::string path = block_path(parameter.name);
    if (single.empty() || single.back().path != path) {
      single.push_back({.path = path, .count = 1, .parameters = 0, .tensors = {}});
    }
    ModelBlock& block = single.back();
    const std::uint64_t values = parameter.shape.size();
    block.tensors.push_back(parameter);
    if (path != parameter.name) block.tensors.back().name.erase(0, path.size() + 1);
    block.parameters += values;
    summary.parameters += values;
    if (parameter.frozen) summary.frozen += values;
  }
  summary.tensors = parameters.size();
  summary.blocks = joined(std::move(single));
  return summary;
}

std::string to_line(const ModelSummary& summary) {
  std::vector<std::string> parts;
  for (const ModelBlock& block : summary.blocks) {
    const std::string stack = stack_path(block.path.substr(0, block.path.find('-')));
    parts.push_back(
        block.count == 1
            ? fmt::format("{} {}", block.path, format_count(block.parameters))
            : fmt::format("{} {} x {}", stack, block.count, format_count(block.parameters)));
  }
  std::string line = fmt::format("{}", fmt::join(parts, "; "));
  if (summary.frozen > 0) line += " (" + describe_frozen(summary) + ")";
  return line;
}

std::string to_table(const ModelSummary& summary) {
  std::size_t width = 5;
  for (const ModelBlock& block : summary.blocks) {
    width = std::max(width, block.path.size());
    for (const ParameterShape& tensor : block.tensors)
      width = std::max(width, tensor.name.size() + 2);
  }
  std::string text =
      fmt::format("{:<{}}  {:>5}  {:>13}  shape\n", "block", width, "count", "parameters");
  for (const ModelBlock& block : summary.blocks) {
    text += fmt::format("{:<{}}  {:>5}  {:>13}\n", block.path, width, block.count,
                        format_count(block.parameters));
    for (const ParameterShape& tensor : block.tensors) {
      text += fmt::format("  {:<{}}  {:>5}  {:>13}  {}{}\n", tensor.name, width - 2, "",
                          format_count(tensor.shape.size()), to_string(tensor.shape),
                          tensor.frozen ? "  frozen" : "");
    }
  }
  return text + fmt::format("total: {} parameters in {} tensors, {}\n",
                            format_count(summary.parameters), summary.tensors,
                            describe_frozen(summary));
}

using Json = nlohmann::ordered_json;

nlohmann::ordered_json to_json(const ModelSummary& summary) {
  Json blocks = Json::array();
  for (const ModelBlock& block : summary.blocks) {
    Json tensors = Json::array();
    for (const ParameterShape& tensor : block.tensors) {
      tensors.push_back(
          {{"name", tensor.name},
           {"shape", std::vector<std::size_t>(tensor.shape.begin(), tensor.shape.end())},
           {"trainable", !tensor.frozen}});
    }
    blocks.push_back({{"path", block.path},
                      {"count", block.count},
                      {"parameters", block.parameters},
                      {"tensors", std::move(tensors)}});
  }
  return {{"parameters", summary.parameters},
          {"trainable", summary.parameters - summary.frozen},
          {"frozen", summary.frozen},
          {"tensors", summary.tensors},
          {"blocks", std::move(blocks)}};
}

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
