#include "train/models/model_json.h"

#include <cstddef>
#include <utility>
#include <vector>

namespace tapestry {

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

}  // namespace tapestry
