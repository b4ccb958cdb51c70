#include "train/report/run_json.h"

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <utility>

#include "data/io/utf8.h"
#include "train/recording/event_log.h"

namespace tapestry {

using Json = nlohmann::ordered_json;

namespace {

Json optional_number(const std::optional<double>& value) {
  return value ? json_number(*value) : Json(nullptr);
}

ProcessTime sum_of(const std::vector<ProcessTime>& processes) {
  ProcessTime total = processes.front();
  const auto add = [](std::optional<double>& sum, const std::optional<double>& value) {
    sum = sum && value ? std::optional(*sum + *value) : std::nullopt;
  };
  for (std::size_t i = 1; i < processes.size(); ++i) {
    const ProcessTime& process = processes[i];
    total.seconds += process.seconds;
    add(total.processor_seconds, process.processor_seconds);
    add(total.other_seconds, process.other_seconds);
    total.threads = process.threads;
    total.cores = process.cores;
    total.positions += process.positions;
    total.padding += process.padding;
    std::ranges::transform(total.parts, process.parts, total.parts.begin(), std::plus());
  }
  return total;
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

Json histogram_json(const WeightStatistics& s) {
  return {
      {"low", json_number(s.low)}, {"high", json_number(s.high)}, {"counts", s.histogram.counts}};
}

/// A value of each record that has the block.
Json block_json(const std::string& path, const std::vector<ValidationRecord>& records) {
  Json json = {{"path", path}};
  const auto add = [&](const char* name, Json value) { json[name].push_back(std::move(value)); };
  for (const ValidationRecord& record : records) {
    const auto block = std::ranges::find(record.blocks, path, &BlockRecord::path);
    if (block == record.blocks.end()) continue;
    const auto& gradients = block->gradients;
    add("steps", record.step);
    add("update_ratio", optional_number(block->update_ratio));
    add("gradient_norm", gradients ? json_number(gradients->norm) : Json(nullptr));
    add("weight_norm", json_number(block->weights.norm));
    add("weights", histogram_json(block->weights));
    add("gradients", gradients ? histogram_json(*gradients) : Json(nullptr));
  }
  return json;
}

Json statistics_json(const WeightStatistics& s) {
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

Json history_json(const RunHistory& history, const std::string& changes) {
  Json processes = Json::array(), lines = Json::array(), log = Json::array();
  for (const ProcessTime& process : history.processes) {
    processes.push_back({{"started", escaped(process.started)},
                         {"last_step", process.step},
                         {"threads", process.threads},
                         {"seconds", json_number(process.seconds)}});
  }
  std::istringstream stream(changes);
  for (std::string line; std::getline(stream, line);) lines.push_back(escaped(line));
  for (const LogLine& line : history.log) {
    log.push_back({{"time", line.time}, {"text", line.text}, {"warning", line.warning}});
  }
  return {{"processes", std::move(processes)},
          {"changes", std::move(lines)},
          {"profile", history.profile},
          {"log", std::move(log)},
          {"log_lines_left_out", history.log_lines_left_out}};
}

Json time_json(const std::vector<ProcessTime>& processes) {
  if (processes.empty()) return nullptr;
  const ProcessTime total = sum_of(processes);
  Json parts = Json::array();
  for (std::size_t i = 0; i < time_part_names.size(); ++i) {
    parts.push_back({{"name", time_part_names[i]}, {"seconds", json_number(total.parts[i])}});
  }
  return {{"seconds", json_number(total.seconds)},
          {"parts", std::move(parts)},
          {"processor_seconds", optional_number(total.processor_seconds)},
          {"other_seconds", optional_number(total.other_seconds)},
          {"threads", total.threads},
          {"cores", total.cores},
          {"positions", total.positions},
          {"padding", total.padding}};
}

Json recording_json(const std::vector<ValidationRecord>& records) {
  if (records.empty()) return nullptr;
  Json blocks = Json::array();
  for (const BlockRecord& block : records.back().blocks) {
    blocks.push_back(block_json(block.path, records));
  }
  return {{"samples", samples_json(records)}, {"blocks", std::move(blocks)}};
}

Json weights_json(const std::vector<BlockWeights>& weights) {
  Json blocks = Json::array();
  for (const BlockWeights& block : weights) {
    Json list = Json::array();
    for (const BlockWeights::Parameter& parameter : block.parameters) {
      list.push_back(
          {{"name", parameter.name},
           {"shape", std::vector<std::size_t>(parameter.shape.begin(), parameter.shape.end())},
           {"frozen", parameter.frozen},
           {"statistics", statistics_json(parameter.statistics)}});
    }
    blocks.push_back({{"path", block.path},
                      {"matrices", statistics_json(block.matrices)},
                      {"parameters", std::move(list)}});
  }
  return blocks;
}

}  // namespace tapestry
