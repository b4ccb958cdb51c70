#include "train/report/held_out_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "train/models/held_out_results.h"
#include "train/recording/event_log.h"
#include "train/tasks/task.h"

namespace tapestry {

using Json = nlohmann::ordered_json;

namespace {

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
  constexpr std::size_t bytes_per_weight = 4;  // at most, three digits and a comma
  std::size_t weights = 0;
  for (const LayerAttention& layer : sample.layers) weights += layer.weights.size();
  return bytes_per_weight * weights;
}

/// The weights of each example, as far as there is room for them.
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
        fmt::format("attention: {} of {} examples are shown, more would make the file too large",
                    shown.size(), found.size()));
  }
  return shown;
}

/// Adds `attention`, the weights of each example.
void add_attention(const TrainedModel& trained, const Corpus& corpus, const ReportOptions& options,
                   Json& json, std::vector<std::string>& notes) {
  const bool images = find_task(trained.config).traits().reads_images;
  const std::size_t most = images ? options.attention_patches : options.attention_tokens;
  json["attention"] = Json::array();
  if (options.attention == 0) return;
  const auto found = attention_samples(*trained.model, trained.config, trained.codec, corpus,
                                       {.examples = options.attention, .most_tokens = most});
  if (found.empty()) {
    notes.push_back(
        fmt::format("attention: the model has no layer of attention, or no held-out "
                    "example has at most {} {}",
                    most, images ? "patches" : "tokens"));
  }
  json["attention"] = attention_json(found, options.attention_bytes, notes);
}

}  // namespace

Json held_out_json(const TrainedModel& trained, const Corpus& corpus, const ReportOptions& options,
                   std::vector<std::string>& notes) {
  Json json = Json::object();
  const auto [set, all] = held_out_set(corpus);
  if (all.empty()) {
    notes.emplace_back("held-out examples: the config names no validation or test set");
    return json;
  }
  const HeldOutAccuracy accuracy = held_out_accuracy(trained, corpus, options.scored);
  const std::vector<ExampleLoss> losses = worst_and_spread(accuracy.losses, options.examples);
  std::vector<std::size_t> indices;
  for (const ExampleLoss& loss : losses) indices.push_back(loss.example);
  const std::vector<ReportExample> shown = report_examples(trained, all, indices);
  Json examples = Json::array();
  for (std::size_t i = 0; i < shown.size(); ++i) {
    Json example = to_json(shown[i]);
    example["loss"] = json_number(losses[i].mean());
    example["labels"] = losses[i].labels;
    example["hits"] = losses[i].hits;
    examples.push_back(std::move(example));
  }
  const std::string noun = find_task(trained.config).words(trained.config).examples;
  json["held_out"] = {{"set", set},
                      {"examples", all.size()},
                      {"noun", noun},
                      {"accuracy", to_json(accuracy)},
                      {"shown", std::move(examples)}};
  add_attention(trained, corpus, options, json, notes);
  if (!find_task(trained.config).traits().reads_images) return json;
  json["patches"] = {{"size", trained.config.model.patch_size},
                     {"height", trained.config.data.images.image_height},
                     {"width", trained.config.data.images.image_width}};
  return json;
}

}  // namespace tapestry
