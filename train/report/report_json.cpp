// SPDX-License-Identifier: BSD-3-Clause
#include "train/report/report_json.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include "data/io/utf8.h"
#include "train/models/held_out_results.h"
#include "train/recording/event_log.h"
#include "train/tasks/task.h"

namespace tapestry {

using Json = nlohmann::ordered_json;

namespace {

// ---- Curves

/// The steps, each as the difference from the previous step.
Json step_differences(const std::vector<std::uint64_t>& steps) {
  Json list = Json::array();
  std::uint64_t before = 0;
  for (const std::uint64_t step : steps) {
    list.push_back(step - before);
    before = step;
  }
  return list;
}

/// A mean curve with its standard deviation, reduced to the extremes of the mean.
Json to_json(const MeanCurve& mean, std::size_t max_points) {
  const Curve points = extremes(mean.mean, max_points);
  std::vector<double> deviation;
  for (std::size_t i = 0, at = 0; i < points.steps.size(); ++i) {
    while (mean.mean.steps[at] < points.steps[i]) ++at;
    deviation.push_back(mean.deviation[at]);
  }
  return {{"steps", step_differences(points.steps)},
          {"values", json_numbers(points.values)},
          {"deviation", json_numbers(deviation)}};
}

// ---- The history of a run

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

/// Each sample of the records, with its outputs over the steps.
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

/// The values of a block in the records that contain it.
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

// ---- Held-out data

std::string base64(std::span<const std::uint8_t> bytes) {
  constexpr std::string_view digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    for (std::size_t j = 0; j < 3; ++j) group = group << 8 | (j < count ? bytes[i + j] : 0U);
    for (std::size_t j = 0; j < 4; ++j) {
      text += j <= count ? digits[group >> (18 - 6 * j) & 63] : '=';
    }
  }
  return text;
}

Json to_json(const ReportImage& image) {
  if (image.values.empty()) return nullptr;
  return {{"height", image.height},
          {"width", image.width},
          {"channels", image.channels},
          {"bytes", base64(image.values)}};
}

Json to_json(const std::vector<LabelGroup>& groups) {
  Json list = Json::array();
  for (const auto& [name, labels, hits] : groups) {
    list.push_back({{"name", name}, {"labels", labels}, {"hits", hits}});
  }
  return list;
}

Json to_json(const HeldOutAccuracy& accuracy) {
  return {{"examples", accuracy.examples},
          {"labels", accuracy.labels},
          {"hits", accuracy.hits},
          {"by_length", to_json(accuracy.by_length)},
          {"by_frequency", to_json(accuracy.by_frequency)},
          {"frequency_of_training", accuracy.frequency_of_training},
          {"classes", accuracy.confusion.classes},
          {"confusion", accuracy.confusion.counts}};
}

Json to_json(const ReportExample& example) {
  Json tokens = Json::array();
  for (const auto& [expected, predicted, probability] : example.tokens) {
    tokens.push_back({expected, predicted, json_number(probability)});
  }
  Json json = {{"number", example.number}};
  if (example.tokens.empty()) {
    json["input"] = example.text.input;
    json["output"] = example.text.output;
    json["expected"] = example.text.expected;
  } else {
    json["tokens"] = std::move(tokens);
  }
  if (Json image = to_json(example.image); !image.is_null()) json["image"] = std::move(image);
  return json;
}

/// A weight in thousandths; 0 only for a weight of exactly 0 (masked).
int thousandths(double weight) {
  const int rounded = static_cast<int>(std::lround(1000.0 * weight));
  return weight > 0.0 ? std::max(rounded, 1) : 0;
}

/// All weights of a sample; tokens that layers share are stored once.
Json to_json(const AttentionSample& sample) {
  std::vector<Tokens> token_lists;
  // Returns the index of the list, which is added if it is new.
  const auto add_tokens = [&](const Tokens& tokens) {
    const auto found = std::ranges::find(token_lists, tokens);
    if (found != token_lists.end()) return found - token_lists.begin();
    token_lists.push_back(tokens);
    return static_cast<std::ptrdiff_t>(token_lists.size() - 1);
  };
  Json layers = Json::array();
  for (const LayerAttention& layer : sample.layers) {
    const std::size_t size = layer.queries.size() * layer.keys.size();
    Json heads = Json::array();
    for (std::size_t head = 0; head < layer.num_heads; ++head) {
      Json weights = Json::array();
      for (const double weight : std::span(layer.weights).subspan(head * size, size)) {
        weights.push_back(thousandths(weight));
      }
      heads.push_back(std::move(weights));
    }
    layers.push_back({{"layer", layer.layer},
                      {"queries", add_tokens(layer.queries)},
                      {"keys", add_tokens(layer.keys)},
                      {"heads", std::move(heads)}});
  }
  return {{"number", sample.number},
          {"tokens", token_lists},
          {"layers", std::move(layers)},
          {"image", to_json(sample.image)}};
}

std::size_t weight_bytes(const AttentionSample& sample) {
  constexpr std::size_t bytes_per_weight = 4;  // three digits and a comma; 1000 is rare
  std::size_t weights = 0;
  for (const LayerAttention& layer : sample.layers) weights += layer.weights.size();
  return bytes_per_weight * weights;
}

/// The weights of the examples in order. Skips an example if the total would exceed `max_bytes`.
Json attention_json(const std::vector<AttentionSample>& found, std::size_t max_bytes,
                    std::vector<std::string>& notes) {
  Json shown = Json::array();
  std::size_t bytes = 0, left_out = 0;
  for (const AttentionSample& sample : found) {
    for (const std::string& note : sample.notes) {
      notes.push_back(fmt::format("attention of example {}: {}", sample.number, note));
    }
    if (sample.layers.empty()) continue;
    const std::size_t more = weight_bytes(sample);
    if (bytes + more > max_bytes) {
      ++left_out;
      continue;
    }
    bytes += more;
    shown.push_back(to_json(sample));
  }
  if (left_out > 0) {
    notes.push_back(
        fmt::format("attention: {} of {} examples are shown, to limit the size of the file",
                    shown.size(), found.size()));
  }
  return shown;
}

/// Adds `attention`, the weights of each example.
void add_attention(const TrainedModel& trained, const std::vector<Example>& set,
                   const ReportOptions& options, Json& json, std::vector<std::string>& notes) {
  const bool images = find_task(trained.config).traits().reads_images;
  const std::size_t max_tokens = images ? options.attention_patches : options.attention_tokens;
  json["attention"] = Json::array();
  if (options.attention == 0) return;
  const auto found = attention_samples(*trained.model, trained.config, trained.codec, set,
                                       {.examples = options.attention, .max_tokens = max_tokens});
  if (found.empty()) {
    notes.push_back(
        fmt::format("attention is left out: the model has no attention layer, or every held-out "
                    "example exceeds the limit of {} {}",
                    max_tokens, images ? "patches" : "tokens"));
  }
  json["attention"] = attention_json(found, options.attention_bytes, notes);
}

}  // namespace

Json curve_json(const NamedCurve& named, std::size_t max_points) {
  const Curve points = extremes(named.curve, max_points);
  Json json = {{"name", named.name},
               {"validation", named.validation},
               {"count", named.curve.values.size()},
               {"steps", step_differences(points.steps)},
               {"values", json_numbers(points.values)}};
  if (points.values.size() < named.curve.values.size()) {
    const Curve means = part_means(named.curve, max_points / 2);
    json["mean_steps"] = step_differences(means.steps);
    json["means"] = json_numbers(means.values);
  }
  return json;
}

Json mean_curves_json(const std::vector<const RunHistory*>& group, std::size_t max_points) {
  Json curves = Json::array();
  for (const NamedCurve& first : group.front()->curves) {
    std::vector<Curve> same;
    for (const RunHistory* history : group) {
      for (const NamedCurve& curve : history->curves) {
        const bool matches = curve.name == first.name && curve.validation == first.validation;
        if (matches) same.push_back(curve.curve);
      }
    }
    if (same.size() != group.size()) continue;
    const MeanCurve mean = mean_and_deviation(same);
    if (mean.mean.steps.empty()) continue;
    Json json = {{"name", first.name}, {"validation", first.validation}};
    json.update(to_json(mean, max_points));
    curves.push_back(std::move(json));
  }
  return curves;
}

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
      list.push_back({{"name", parameter.name},
                      {"shape", parameter.shape},
                      {"frozen", parameter.frozen},
                      {"statistics", statistics_json(parameter.statistics)}});
    }
    blocks.push_back({{"path", block.path},
                      {"matrices", statistics_json(block.matrices)},
                      {"parameters", std::move(list)}});
  }
  return blocks;
}

Json held_out_json(const TrainedModel& trained, const Corpus& corpus, const ReportOptions& options,
                   std::vector<std::string>& notes) {
  Json json = Json::object();
  const EvaluationSet set = held_out_set(trained, corpus, options.set);
  const std::vector<Example>& all = set.examples;
  if (all.empty()) {
    const bool is_test = options.set == test_name;
    const char* other = is_test ? validation_name : test_name;
    notes.push_back(
        fmt::format("held-out examples are left out: the run has no {} set", options.set));
    if (!held_out_set(trained, corpus, other).examples.empty()) {
      notes.back() += fmt::format("\nhint: use --set {} to show its {} set", other, other);
    }
    return json;
  }
  const HeldOutAccuracy accuracy = held_out_accuracy(trained, corpus, all, options.scored);
  const std::vector<ExampleLoss> losses = worst_and_spread(accuracy.losses, options.examples);
  std::vector<std::size_t> indices;
  for (const ExampleLoss& loss : losses) indices.push_back(loss.example);
  const std::vector<ReportExample> shown = report_examples(trained, set, indices);
  Json examples = Json::array();
  for (std::size_t i = 0; i < shown.size(); ++i) {
    Json example = to_json(shown[i]);
    example["loss"] = json_number(losses[i].mean());
    example["labels"] = losses[i].labels;
    example["hits"] = losses[i].hits;
    examples.push_back(std::move(example));
  }
  const std::string noun = find_task(trained.config).words(trained.config).examples;
  json["held_out"] = {{"set", options.set},
                      {"examples", all.size()},
                      {"noun", noun},
                      {"accuracy", to_json(accuracy)},
                      {"shown", std::move(examples)}};
  add_attention(trained, all, options, json, notes);
  if (!find_task(trained.config).traits().reads_images) return json;
  json["patches"] = {{"size", trained.config.model.patch_size},
                     {"height", trained.config.data.images.image_height},
                     {"width", trained.config.data.images.image_width}};
  return json;
}

}  // namespace tapestry
