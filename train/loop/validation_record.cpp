#include "train/loop/validation_record.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "data/io/utf8.h"
#include "train/config/text.h"
#include "train/loop/event_log.h"
#include "train/loop/json_values.h"

namespace tapestry {
namespace {

using Json = nlohmann::ordered_json;

// ---- Writing

Json statistics_json(const WeightStatistics& s) {
  return {{"norm", json_number(s.norm)}, {"values", s.values},
          {"not_finite", s.not_finite},  {"low", json_number(s.low)},
          {"high", json_number(s.high)}, {"mean", json_number(s.mean)},
          {"counts", s.histogram.counts}};
}

/// The first characters of a text.
std::string cut(const std::string& text) {
  constexpr std::size_t most = 2000;
  return find_invalid_utf8(text) ? escaped(text).substr(0, most)
                                 : std::string(characters(text, 0, most));
}

Json training_json(const TrainingRecord& training) {
  return {{"examples", training.examples},
          {"tokens", training.tokens},
          {"epochs", training.epochs},
          {"sample", training.sample.examples},
          {"accuracy", json_number(training.sample.accuracy)}};
}

// ---- Reading; get() throws Json::exception for a value of another type.

WeightStatistics read_statistics(const Json& json) {
  WeightStatistics s{.values = json.at("values").get<std::uint64_t>(),
                     .not_finite = json.at("not_finite").get<std::uint64_t>(),
                     .norm = number_of(json.at("norm")),
                     .mean = number_of(json.at("mean")),
                     .low = number_of(json.at("low")),
                     .high = number_of(json.at("high"))};
  s.histogram = {
      .low = s.low, .high = s.high, .counts = json.at("counts").get<std::vector<std::uint64_t>>()};
  return s;
}

BlockRecord read_block(const Json& json) {
  BlockRecord block{.path = json.at("path").get<std::string>(),
                    .weights = read_statistics(json.at("weights"))};
  if (json.contains("gradients")) block.gradients = read_statistics(json["gradients"]);
  if (json.contains("update_ratio")) block.update_ratio = number_of(json["update_ratio"]);
  return block;
}

TrainingRecord read_training(const Json& json) {
  return {.examples = json.at("examples").get<std::uint64_t>(),
          .tokens = json.at("tokens").get<std::uint64_t>(),
          .epochs = json.at("epochs").get<std::uint64_t>(),
          .sample = {.examples = json.at("sample").get<std::size_t>(),
                     .accuracy = number_of(json.at("accuracy"))}};
}

ValidationRecord read_record(std::uint64_t step, const Json& json) {
  ValidationRecord record{.step = step,
                          .resident_bytes = json.at("resident_bytes").get<std::uint64_t>()};
  for (const Json& sample : json.at("samples")) {
    record.samples.push_back({.input = sample.at("input").get<std::string>(),
                              .output = sample.at("output").get<std::string>(),
                              .expected = sample.at("expected").get<std::string>()});
  }
  for (const Json& block : json.at("blocks")) record.blocks.push_back(read_block(block));
  if (json.contains("training")) record.training = read_training(json["training"]);
  return record;
}

}  // namespace

Json to_json(const ValidationRecord& record) {
  Json samples = Json::array(), blocks = Json::array();
  for (const auto& [input, output, expected] : record.samples) {
    samples.push_back(
        {{"input", cut(input)}, {"output", cut(output)}, {"expected", cut(expected)}});
  }
  for (const BlockRecord& block : record.blocks) {
    Json json = {{"path", block.path}, {"weights", statistics_json(block.weights)}};
    if (block.gradients) json["gradients"] = statistics_json(*block.gradients);
    if (block.update_ratio) json["update_ratio"] = json_number(*block.update_ratio);
    blocks.push_back(std::move(json));
  }
  Json json = {{"resident_bytes", record.resident_bytes},
               {"samples", std::move(samples)},
               {"blocks", std::move(blocks)}};
  if (record.training) json["training"] = training_json(*record.training);
  return json;
}

ValidationRecords read_validations(std::string_view events) {
  ValidationRecords read;
  std::vector<ValidationRecord>& records = read.records;
  read.ignored_lines = read_events(events, "validation", [&](std::uint64_t step, const Json& json) {
    ValidationRecord record = read_record(step, json);
    if (!records.empty() && records.back().step == step) records.pop_back();
    records.push_back(std::move(record));
  });
  return read;
}

}  // namespace tapestry
