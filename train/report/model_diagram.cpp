#include "train/report/model_diagram.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "autograd/shape.h"
#include "train/tasks/task.h"

namespace tapestry {
namespace {

/// The task of a model of this library; null for a model of another program.
const Task* built_in_task(const std::string& model_kind) {
  const std::vector<std::string> custom = custom_kinds();
  if (std::ranges::find(custom, model_kind) != custom.end()) return nullptr;
  const auto named = [&](const Task* task) { return task->kind().name == model_kind; };
  const auto task = std::ranges::find_if(all_tasks(), named);
  return task == all_tasks().end() ? nullptr : *task;
}

/// The modules of a block; parameters of the same shape are counted.
std::vector<DiagramModule> diagram_modules(const ModelBlock& block) {
  std::vector<DiagramModule> modules;
  std::vector<std::vector<std::pair<std::string, std::size_t>>> shapes;
  for (const ParameterShape& tensor : block.tensors) {
    const std::size_t dot = tensor.name.find('.');
    const std::string name = dot == tensor.name.npos ? "" : tensor.name.substr(0, dot);
    auto module = std::ranges::find(modules, name, &DiagramModule::name);
    if (module == modules.end()) {
      module = modules.insert(module, {.name = name});
      shapes.emplace_back();
    }
    module->parameters += tensor.shape.size();
    auto& counts = shapes[static_cast<std::size_t>(module - modules.begin())];
    const std::string shape = to_string(tensor.shape);
    const auto same = std::ranges::find(counts, shape, &std::pair<std::string, std::size_t>::first);
    if (same == counts.end()) {
      counts.emplace_back(shape, 1);
    } else {
      ++same->second;
    }
  }
  for (std::size_t i = 0; i < modules.size(); ++i) {
    for (const auto& [shape, count] : shapes[i]) {
      modules[i].shapes.push_back(count == 1 ? shape : fmt::format("{} x {}", count, shape));
    }
  }
  return modules;
}

bool is_logits(const ModelBlock& block) { return block.path == "output" || block.path == "head"; }

bool is_of_encoder(const std::string& path, const Task& task) {
  return task.traits().has_two_stacks() &&
         (path.starts_with("encoder.") || path == "source_embedding");
}

/// The letter of the number of tokens of the output of a block, see model_diagram().
const char* length_letter(const std::string& path, const Task& task, const Config& config) {
  if (task.traits().has_two_stacks()) return is_of_encoder(path, task) ? "S" : "T";
  const bool before_class_token = task.traits().reads_images &&
                                  config.model.pooling == PoolingKind::class_token &&
                                  path == "patches.projection";
  return before_class_token ? "P" : "L";
}

/// The shape of the output of a block of a model of this library.
std::string output_shape(const ModelBlock& block, const Task& task, const Config& config) {
  const char* length = length_letter(block.path, task, config);
  if (!is_logits(block)) return fmt::format("(B, {}, {})", length, config.model.d_model);
  const std::size_t classes = block.tensors.front().shape[0];
  return task.traits().one_label_per_example ? fmt::format("(B, {})", classes)
                                             : fmt::format("(B, {}, {})", length, classes);
}

/// A box without parameters of its own for a source embedding that is the target embedding.
DiagramBlock shared_source_embedding(const Config& config) {
  return {.title = "source_embedding",
          .note = "weight of target_embedding",
          .output = fmt::format("(B, S, {})", config.model.d_model),
          .of_encoder = true};
}

}  // namespace

std::vector<DiagramBlock> model_diagram(const ModelSummary& summary, const Config& config) {
  const Task* const task = built_in_task(config.model_kind);
  const bool has_target = std::ranges::any_of(
      summary.blocks, [](const ModelBlock& b) { return b.path == "target_embedding"; });
  std::vector<DiagramBlock> encoder, others;
  for (const ModelBlock& block : summary.blocks) {
    DiagramBlock box{.title = block.path,
                     .count = block.count,
                     .parameters = block.parameters,
                     .modules = diagram_modules(block)};
    if (task != nullptr) {
      box.output = output_shape(block, *task, config);
      box.of_encoder = is_of_encoder(block.path, *task);
      box.reads_encoder = std::ranges::any_of(
          box.modules, [](const DiagramModule& m) { return m.name == "cross_attn"; });
      if (block.path == "output" && config.model.tie_embeddings != TiedEmbeddings::none) {
        box.note = has_target ? "weight of target_embedding" : "weight of embedding";
      }
    }
    (box.of_encoder ? encoder : others).push_back(std::move(box));
  }
  const auto embeds_source = [](const DiagramBlock& b) { return b.title == "source_embedding"; };
  const bool two_stacks = task != nullptr && task->traits().has_two_stacks();
  if (two_stacks && std::ranges::none_of(encoder, embeds_source)) {
    encoder.insert(encoder.begin(), shared_source_embedding(config));
  }
  encoder.insert(encoder.end(), std::make_move_iterator(others.begin()),
                 std::make_move_iterator(others.end()));
  return encoder;
}

nlohmann::ordered_json diagram_json(const std::vector<DiagramBlock>& blocks) {
  using Json = nlohmann::ordered_json;
  Json list = Json::array();
  for (const DiagramBlock& block : blocks) {
    Json modules = Json::array();
    for (const DiagramModule& module : block.modules) {
      modules.push_back(
          {{"name", module.name}, {"parameters", module.parameters}, {"shapes", module.shapes}});
    }
    list.push_back({{"title", block.title},
                    {"count", block.count},
                    {"parameters", block.parameters},
                    {"modules", std::move(modules)},
                    {"note", block.note},
                    {"output", block.output},
                    {"of_encoder", block.of_encoder},
                    {"reads_encoder", block.reads_encoder}});
  }
  return list;
}

}  // namespace tapestry
