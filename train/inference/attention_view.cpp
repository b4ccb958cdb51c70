// SPDX-License-Identifier: BSD-3-Clause
#include "train/inference/attention_view.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "autograd/attention_trace.h"
#include "data/io/utf8.h"
#include "train/config/text.h"
#include "train/inference/batch_tensors.h"

namespace tapestry {
namespace {

/// The weights with token names, which are chosen by the path of the layer. nullopt if the number
/// of names does not match the shape, since a layer of a custom model may read other tokens.
std::optional<LayerAttention> make_view(const RecordedAttention& record,
                                        const StackTokens& tokens) {
  const std::string_view path = record.path;
  const bool encoder_looks = path.starts_with("encoder");
  const bool encoder_is_looked_at = encoder_looks || path.ends_with("cross_attn");
  const Tensor weights = record.weights.to(DType::float64);
  const auto values = weights.values<double>();
  LayerAttention view{.layer = record.path,
                      .queries = encoder_looks ? tokens.encoder : tokens.decoder,
                      .keys = encoder_is_looked_at ? tokens.encoder : tokens.decoder,
                      .num_heads = weights.shape()[1],
                      .weights = {values.begin(), values.end()}};
  if (weights.shape() != Shape{1, view.num_heads, view.queries.size(), view.keys.size()}) {
    return std::nullopt;
  }
  return view;
}

}  // namespace

AttentionViews attention_weights(const Model& model, const Batch& batch,
                                 const StackTokens& tokens) {
  const NetworkInput input = network_input(batch, model.parameters.dtype());
  const AttentionRecorder recorder;
  model.network->features(model.network->embed(input, Mode::inference()), input, Mode::inference());
  AttentionViews views;
  for (const RecordedAttention& record : recorder.records()) {
    if (auto view = make_view(record, tokens)) {
      views.layers.push_back(std::move(*view));
      continue;
    }
    views.notes.push_back(
        fmt::format("layer {} is left out: its weights of shape {} do not fit the {} encoder and "
                    "{} decoder tokens",
                    record.path, to_string(record.weights.shape()), tokens.encoder.size(),
                    tokens.decoder.size()));
  }
  return views;
}

namespace {

std::string aligned_right(const std::string& text, std::size_t width) {
  return std::string(width - std::min(width, count_characters(text)), ' ') + text;
}

std::vector<std::size_t> column_widths(const Tokens& names) {
  constexpr std::size_t min_width = 3;  // width of "100"
  std::vector<std::size_t> widths;
  for (const std::string& name : names)
    widths.push_back(std::max(min_width, count_characters(name)));
  return widths;
}

/// The names, with control characters escaped for a terminal.
Tokens shown(Tokens names) {
  for (std::string& name : names) name = escaped(name);
  return names;
}

std::string weight_text(double weight) {
  return weight == 0.0 ? "." : fmt::format("{:.0f}", 100 * weight);
}

std::string table(const LayerAttention& layer, std::size_t head) {
  const Tokens queries = shown(layer.queries), keys = shown(layer.keys);
  const auto widths = column_widths(keys);
  const std::size_t margin = std::ranges::max(column_widths(queries));
  std::string text = fmt::format("\n{}, head {}\n{}", layer.layer, head, std::string(margin, ' '));
  for (std::size_t j = 0; j < keys.size(); ++j) text += ' ' + aligned_right(keys[j], widths[j]);
  for (std::size_t i = 0; i < queries.size(); ++i) {
    text += '\n' + aligned_right(queries[i], margin);
    for (std::size_t j = 0; j < keys.size(); ++j) {
      text += ' ' + aligned_right(weight_text(layer.weight(head, i, j)), widths[j]);
    }
  }
  return text + '\n';
}

using Json = nlohmann::ordered_json;

Json head_to_json(const LayerAttention& layer, std::size_t head) {
  Json rows = Json::array();
  for (std::size_t i = 0; i < layer.queries.size(); ++i) {
    Json row = Json::array();
    for (std::size_t j = 0; j < layer.keys.size(); ++j) row.push_back(layer.weight(head, i, j));
    rows.push_back(std::move(row));
  }
  return {{"head", head}, {"weights", std::move(rows)}};
}

Json layer_to_json(const LayerAttention& layer, HeadRange range) {
  Json heads = Json::array();
  for (std::size_t head = range.begin; head < range.end; ++head) {
    heads.push_back(head_to_json(layer, head));
  }
  return {{"layer", layer.layer},
          {"queries", layer.queries},
          {"keys", layer.keys},
          {"heads", std::move(heads)}};
}

}  // namespace

std::string attention_tables(const std::vector<LayerAttention>& layers, HeadRange heads) {
  std::string text = "rows: queries; columns: keys; weights in per cent; `.`: exactly 0 (masked)\n";
  for (const LayerAttention& layer : layers) {
    for (std::size_t head = heads.begin; head < heads.end; ++head) {
      text += table(layer, head);
    }
  }
  return text;
}

std::string attention_json(const std::vector<LayerAttention>& layers, HeadRange heads,
                           const std::string& model, const std::string& example) {
  Json list = Json::array();
  for (const LayerAttention& layer : layers) {
    list.push_back(layer_to_json(layer, heads));
  }
  const Json json = {{"model", model}, {"example", example}, {"layers", std::move(list)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tapestry
