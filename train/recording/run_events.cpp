// SPDX-License-Identifier: BSD-3-Clause
#include "train/recording/run_events.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <string>
#include <system_error>
#include <utility>

#include "autograd/kernels/parallel.h"
#include "data/io/file.h"
#include "data/io/utf8.h"
#include "train/config/text.h"
#include "train/recording/event_log.h"

namespace tapestry {
using Json = nlohmann::ordered_json;

// ---- Digests

namespace {

std::uint32_t compute_digest(const Tensor& tensor) {
  return dispatch(tensor.dtype(),
                  [&]<class T>() { return digest_of_values(std::as_bytes(tensor.values<T>())); });
}

/// Parses a digest of 8 hexadecimal digits; nullopt for any other text.
std::optional<std::uint32_t> parse_digest(const std::string& text) {
  std::uint32_t digest = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, digest, 16);
  if (text.size() != 8 || error != std::errc() || stop != end) return std::nullopt;
  return digest;
}

/// Appends the digests of an event to the table. Returns false if they are invalid, if their
/// tensors differ from the tensors in the table, or if their step is not later than the last step.
bool append(DigestTable& table, std::uint64_t step, const Json& json) {
  if (json.contains("tensors")) {
    const auto names = json["tensors"].get<std::vector<std::string>>();
    if (table.names.empty()) table.names = names;
    if (table.names != names) return false;
  }
  const auto texts = json.at("digests").get<std::vector<std::string>>();
  const bool is_later = table.steps.empty() || step > table.steps.back();
  if (texts.size() != table.names.size() || !is_later) return false;
  std::vector<std::uint32_t> row;
  for (const std::string& text : texts) {
    const auto digest = parse_digest(text);
    if (!digest) return false;
    row.push_back(*digest);
  }
  table.steps.push_back(step);
  table.digests.insert(table.digests.end(), row.begin(), row.end());
  return true;
}

}  // namespace

std::vector<std::string> digest_names(const Parameters& parameters) {
  std::vector<std::string> names;
  for (const auto* tensors : {&parameters.list(), &parameters.buffers()}) {
    for (const NamedTensor& each : *tensors) names.push_back(escaped(each.name));
  }
  return names;
}

std::uint32_t digest_of_values(std::span<const std::byte> bytes) {
  return static_cast<std::uint32_t>(xxh3(bytes));
}

std::vector<std::uint32_t> compute_digests(const Parameters& parameters) {
  const auto& list = parameters.list();
  const auto& buffers = parameters.buffers();
  std::vector<std::uint32_t> digests(list.size() + buffers.size());
  kernels::parallel_for(digests.size(), [&](std::size_t i) {
    digests[i] = compute_digest(i < list.size() ? list[i].tensor : buffers[i - list.size()].tensor);
  });
  return digests;
}

void add_digests(EventLog& log, std::uint64_t step, const Parameters& parameters, bool with_names) {
  Json fields = Json::object();
  if (with_names) fields["tensors"] = digest_names(parameters);
  Json digests = Json::array();
  for (const std::uint32_t digest : compute_digests(parameters)) {
    digests.push_back(fmt::format("{:08x}", digest));
  }
  fields["digests"] = std::move(digests);
  log.add(step, "digests", fields);
}

std::optional<std::size_t> DigestTable::find(std::uint64_t step) const {
  const auto found = std::ranges::lower_bound(steps, step);
  if (found == steps.end() || *found != step) return std::nullopt;
  return static_cast<std::size_t>(found - steps.begin());
}

DigestTable read_digests(std::string_view events) {
  DigestTable table;
  bool ended = false;
  read_events(events, "digests", [&](std::uint64_t step, const Json& json) {
    ended = ended || !append(table, step, json);
  });
  return table;
}

std::optional<DigestComparison> compare_digests(const DigestTable& a, const DigestTable& b) {
  if (a.names != b.names) return std::nullopt;
  DigestComparison result;
  for (std::size_t i = 0; i < a.steps.size(); ++i) {
    const auto j = b.find(a.steps[i]);
    if (!j) continue;
    const auto x = a.row(i), y = b.row(*j);
    if (std::ranges::equal(x, y)) {
      result.equal_step = a.steps[i];
      continue;
    }
    result.step = a.steps[i];
    for (std::size_t k = 0; k < x.size(); ++k) {
      if (x[k] != y[k]) result.tensors.push_back(a.names[k]);
    }
    return result;
  }
  if (result.equal_step == 0) return std::nullopt;
  return result;
}

// ---- Validations

namespace {

Json statistics_json(const WeightStatistics& s) {
  return {{"norm", json_number(s.norm)}, {"values", s.values},
          {"not_finite", s.not_finite},  {"low", json_number(s.low)},
          {"high", json_number(s.high)}, {"mean", json_number(s.mean)},
          {"counts", s.histogram.counts}};
}

/// The first 2000 characters of a text, escaped if it is not UTF-8.
std::string cut(const std::string& text) {
  constexpr std::size_t max_length = 2000;
  return find_invalid_utf8(text) ? escaped(text).substr(0, max_length)
                                 : std::string(characters(text, 0, max_length));
}

Json training_json(const TrainingRecord& training) {
  return {{"examples", training.examples},
          {"tokens", training.tokens},
          {"epochs", training.epochs},
          {"sample", training.sample.examples},
          {"accuracy", json_number(training.sample.accuracy)}};
}

// In the functions below, at() and get() throw Json::exception for invalid events.

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
