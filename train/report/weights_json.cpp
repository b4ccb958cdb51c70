#include "train/report/weights_json.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "train/recording/json_values.h"

namespace tapestry {

using Json = nlohmann::ordered_json;

namespace {

Json to_json(const WeightStatistics& s) {
  return {{"values", s.values},
          {"zeros", s.zeros},
          {"not_finite", s.not_finite},
          {"norm", json_number(s.norm)},
          {"rms", json_number(s.root_mean_square())},
          {"mean", json_number(s.mean)},
          {"deviation", json_number(s.deviation)},
          {"low", json_number(s.low)},
          {"high", json_number(s.high)},
          {"counts", s.histogram.counts}};
}

}  // namespace

Json weights_json(const std::vector<BlockWeights>& weights) {
  Json blocks = Json::array();
  for (const BlockWeights& block : weights) {
    Json list = Json::array();
    for (const BlockWeights::Parameter& parameter : block.parameters) {
      list.push_back(
          {{"name", parameter.name},
           {"shape", std::vector<std::size_t>(parameter.shape.begin(), parameter.shape.end())},
           {"frozen", parameter.frozen},
           {"statistics", to_json(parameter.statistics)}});
    }
    blocks.push_back({{"path", block.path},
                      {"matrices", to_json(block.matrices)},
                      {"parameters", std::move(list)}});
  }
  return blocks;
}

}  // namespace tapestry
