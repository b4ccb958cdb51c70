#include "train/inference/attention_view.h"

#include <fmt/format.h>

#include <optional>
#include <string_view>
#include <utility>

#include "autograd/attention_trace.h"
#include "train/inference/batch_tensors.h"

namespace tapestry {
namespace {

/// The weights with the names of their tokens, which are chosen by the path of the layer; nullopt
/// if the names do not fit: a layer of a custom model may read anything.
std::optional<LayerAttention> make_view(const RecordedAttention& record,
                                        const StackTokens& tokens) {
  const std::string_view path = record.path;
  const bool encoder_looks = path.starts_with("encoder");
  const bool encoder_is_looked_at = encoder_looks || path.ends_with("cross_attn");
  const Tensor weights = record.weights.copied(DType::float64);
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

}  // namespace tapestry
