#include "train/inference/attention_view.h"

#include <fmt/format.h>

#include <stdexcept>
#include <string_view>

#include "autograd/attention_recorder.h"
#include "train/inference/batch_tensors.h"

namespace tapestry {
namespace {

LayerAttention make_view(const RecordedAttention& record, const StackTokens& tokens) {
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
    throw std::logic_error(fmt::format("attention: {} has weights of shape {} for {} and {} tokens",
                                       record.path, to_string(weights.shape()), view.queries.size(),
                                       view.keys.size()));
  }
  return view;
}

}  // namespace

std::vector<LayerAttention> attention_weights(const Model& model, const Batch& batch,
                                              const StackTokens& tokens) {
  const NetworkInput input = network_input(batch, model.parameters.dtype());
  const AttentionRecorder recorder;
  model.network->features(model.network->embed(input, Mode::inference()), input, Mode::inference());
  std::vector<LayerAttention> layers;
  for (const RecordedAttention& record : recorder.records()) {
    layers.push_back(make_view(record, tokens));
  }
  return layers;
}

}  // namespace tapestry
