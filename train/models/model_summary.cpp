// SPDX-License-Identifier: BSD-3-Clause
#include "train/models/model_summary.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "train/base/format.h"

namespace tapestry {
namespace {

bool is_index(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

/// A path without the number at its end: `encoder.layers` for `encoder.layers.0`. Empty if the path
/// does not end with a number.
std::string stack_path(const std::string& path) {
  const std::size_t dot = path.rfind('.');
  return dot != path.npos && is_index(std::string_view(path).substr(dot + 1)) ? path.substr(0, dot)
                                                                              : "";
}

/// Joins consecutive layers of a stack whose tensors have equal names and shapes.
std::vector<ModelBlock> joined(std::vector<ModelBlock> single) {
  std::vector<ModelBlock> blocks;
  std::string first;  // the path of the first part of blocks.back()
  for (ModelBlock& block : single) {
    const std::string stack = stack_path(block.path);
    if (!blocks.empty() && !stack.empty() && stack_path(first) == stack &&
        blocks.back().tensors == block.tensors) {
      ++blocks.back().count;
      blocks.back().path = first + "-" + block.path.substr(stack.size() + 1);
      continue;
    }
    first = block.path;
    blocks.push_back(std::move(block));
  }
  return blocks;
}

/// Describes the parameters as "all trainable" or "233 trainable, 192 frozen".
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

std::string name_in_block(const std::string& name, const std::string& path) {
  return name == path ? name : name.substr(path.size() + 1);
}

std::vector<ParameterBlock> parameter_blocks(const Parameters& parameters) {
  const std::span<const NamedTensor> all = parameters.list();
  std::vector<ParameterBlock> blocks;
  std::size_t begin = 0;  // start of the last block
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::string path = block_path(all[i].name);
    if (blocks.empty() || blocks.back().path != path) {
      blocks.push_back({.path = std::move(path), .tensors = {}});
      begin = i;
    }
    blocks.back().tensors = all.subspan(begin, i + 1 - begin);
  }
  return blocks;
}

std::vector<ParameterShape> parameter_shapes(const Parameters& parameters) {
  std::vector<ParameterShape> shapes;
  for (const NamedTensor& parameter : parameters) {
    shapes.push_back({.name = parameter.name,
                      .shape = parameter.tensor.shape(),
                      .frozen = !parameter.tensor.requires_grad()});
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
    block.tensors.back().name = name_in_block(parameter.name, path);
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
          {{"name", tensor.name}, {"shape", tensor.shape}, {"trainable", !tensor.frozen}});
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

}  // namespace tapestry
