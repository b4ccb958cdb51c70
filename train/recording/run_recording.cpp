#include "train/recording/run_recording.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "data/io/utf8.h"
#include "train/config/text.h"
#include "train/recording/json_values.h"

namespace tapestry {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view line_begin = R"({"step":)";

std::optional<std::uint64_t> recorded_step(std::string_view line) {
  if (!line.starts_with(line_begin) || !line.ends_with('}')) return std::nullopt;
  const char* begin = line.data() + line_begin.size();
  std::uint64_t step = 0;
  const auto [stop, error] = std::from_chars(begin, line.data() + line.size(), step);
  return error == std::errc() && *stop == ',' ? std::optional(step) : std::nullopt;
}

constexpr StepLines record_lines{
    .heading = "", .longest_line = 4 << 20, .parse_step = recorded_step};

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

Json record_json(const ValidationRecord& record) {
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
  Json json = {{"step", record.step},
               {"resident_bytes", record.resident_bytes},
               {"samples", std::move(samples)},
               {"blocks", std::move(blocks)}};
  if (record.training) json["training"] = training_json(*record.training);
  return json;
}

// ---- Reading; get() throws Json::exception for a value of another type.

double real(const Json& json) { return json.is_null() ? std::nan("") : json.get<double>(); }

WeightStatistics read_statistics(const Json& json) {
  WeightStatistics s{.values = json.at("values").get<std::uint64_t>(),
                     .not_finite = json.at("not_finite").get<std::uint64_t>(),
                     .norm = real(json.at("norm")),
                     .mean = real(json.at("mean")),
                     .low = real(json.at("low")),
                     .high = real(json.at("high"))};
  s.histogram = {
      .low = s.low, .high = s.high, .counts = json.at("counts").get<std::vector<std::uint64_t>>()};
  return s;
}

BlockRecord read_block(const Json& json) {
  BlockRecord block{.path = json.at("path").get<std::string>(),
                    .weights = read_statistics(json.at("weights"))};
  if (json.contains("gradients")) block.gradients = read_statistics(json["gradients"]);
  if (json.contains("update_ratio")) block.update_ratio = real(json["update_ratio"]);
  return block;
}

TrainingRecord read_training(const Json& json) {
  return {.examples = json.at("examples").get<std::uint64_t>(),
          .tokens = json.at("tokens").get<std::uint64_t>(),
          .epochs = json.at("epochs").get<std::uint64_t>(),
          .sample = {.examples = json.at("sample").get<std::size_t>(),
                     .accuracy = real(json.at("accuracy"))}};
}

ValidationRecord read_record(const Json& json) {
  ValidationRecord record{.step = json.at("step").get<std::uint64_t>(),
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

std::optional<ValidationRecord> parse_line(std::string_view line) {
  if (!recorded_step(line)) return std::nullopt;
  // A line nested deeper than this program writes is not parsed: recursion would be as deep.
  const auto shallow = [](int depth, Json::parse_event_t, Json&) { return depth < 8; };
  try {
    return read_record(Json::parse(line, shallow));
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

}  // namespace

RunRecording::RunRecording(std::filesystem::path path, std::uint64_t step)
    : log_(std::move(path), record_lines, step) {}

void RunRecording::add(const ValidationRecord& record) {
  log_.append(record_json(record).dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

ParsedRecording parse_recording(std::string_view text) {
  ParsedRecording parsed;
  std::vector<ValidationRecord>& records = parsed.records;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    if (end == text.npos) break;
    const auto record = parse_line(text.substr(begin, end - begin));
    if (!record || (!records.empty() && record->step < records.back().step)) {
      parsed.ignored_lines = static_cast<std::size_t>(std::ranges::count(text.substr(begin), '\n'));
      break;
    }
    if (!records.empty() && record->step == records.back().step) records.pop_back();
    records.push_back(*record);
    begin = end + 1;
  }
  return parsed;
}

}  // namespace tapestry
