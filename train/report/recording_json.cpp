#include "train/report/recording_json.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "train/recording/json_values.h"

namespace tapestry {

using Json = nlohmann::ordered_json;

namespace {

Json histogram_json(const WeightStatistics& s) {
  return {
      {"low", json_number(s.low)}, {"high", json_number(s.high)}, {"counts", s.histogram.counts}};
}

/// The samples of all records: their outputs over steps.
Json samples_json(const std::vector<ValidationRecord>& records) {
  std::map<std::pair<std::string, std::string>, std::size_t> places;
  Json samples = Json::array();
  for (const ValidationRecord& record : records) {
    for (const ShownExample& sample : record.samples) {
      const auto [place, is_new] =
          places.try_emplace({sample.input, sample.expected}, samples.size());
      if (is_new) {
        samples.push_back({{"input", sample.input},
                           {"expected", sample.expected},
                           {"steps", Json::array()},
                           {"outputs", Json::array()}});
      }
      samples[place->second]["steps"].push_back(record.step);
      samples[place->second]["outputs"].push_back(sample.output);
    }
  }
  return samples;
}

/// A value of each record that has the block.
Json block_json(const std::string& path, const std::vector<ValidationRecord>& records) {
  Json json = {{"path", path}};
  for (const char* name :
       {"steps", "update_ratio", "gradient_norm", "weight_norm", "weights", "gradients"}) {
    json[name] = Json::array();
  }
  for (const ValidationRecord& record : records) {
    const auto block = std::ranges::find(record.blocks, path, &BlockRecord::path);
    if (block == record.blocks.end()) continue;
    const bool has_gradients = block->gradients.has_value();
    json["steps"].push_back(record.step);
    json["update_ratio"].push_back(block->update_ratio ? json_number(*block->update_ratio)
                                                       : Json(nullptr));
    json["gradient_norm"].push_back(has_gradients ? json_number(block->gradients->norm)
                                                  : Json(nullptr));
    json["weight_norm"].push_back(json_number(block->weights.norm));
    json["weights"].push_back(histogram_json(block->weights));
    json["gradients"].push_back(has_gradients ? histogram_json(*block->gradients) : Json(nullptr));
  }
  return json;
}

}  // namespace

Json recording_json(const std::vector<ValidationRecord>& records) {
  if (records.empty()) return nullptr;
  Json blocks = Json::array();
  for (const BlockRecord& block : records.back().blocks) {
    blocks.push_back(block_json(block.path, records));
  }
  return {{"samples", samples_json(records)}, {"blocks", std::move(blocks)}};
}

}  // namespace tapestry
