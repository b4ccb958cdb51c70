#include "train/attention_view.h"

#include <fmt/format.h>

#include <stdexcept>
#include <string_view>

#include "autograd/attention_recorder.h"
#include "train/batch_tensors.h"
#include "train/objective.h"

namespace tapestry {
namespace {

Tokens names_of(const std::vector<std::int32_t>& ids, const Vocabulary& vocabulary) {
  Tokens names;
  for (const std::int32_t id : ids) names.push_back(vocabulary.token(id));
  return names;
}

Tokens names_of_patches(const Config& config) {
  const std::size_t size = config.model.patch_size;
  Tokens names{"class"};
  for (std::size_t row = 0; row < config.data.image_height / size; ++row) {
    for (std::size_t column = 0; column < config.data.image_width / size; ++column) {
      names.push_back(fmt::format("{},{}", row, column));
    }
  }
  return names;
}

/// The tokens that each stack of a model reads; a model with one stack has it in both places.
struct ReadTokens {
  Tokens encoder, decoder;
};

ReadTokens read_tokens(const Batch& batch, const Config& config, const TextCodec& codec) {
  const Objective objective = objective_of(config.model.kind);
  const Tokens source = batch.pixels.empty() ? names_of(batch.source, codec.source_vocabulary())
                                             : names_of_patches(config);
  if (objective == Objective::label) return {.encoder = source, .decoder = source};
  const Tokens target = names_of(batch.decoder_input, codec.target_vocabulary());
  return {.encoder = objective == Objective::translation ? source : target, .decoder = target};
}

LayerAttention view_of(const RecordedAttention& record, const ReadTokens& tokens) {
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

std::vector<LayerAttention> attention_of(const Model& model, const Config& config,
                                         const TextCodec& codec, const Example& example) {
  const Batch batch = shown_whole(example, objective_of(config.model.kind));
  const NetworkInput input = network_input(batch, model.parameters.dtype());
  const AttentionRecorder recorder;
  model.network->features(model.network->embed(input), input);
  const ReadTokens tokens = read_tokens(batch, config, codec);
  std::vector<LayerAttention> layers;
  for (const RecordedAttention& record : recorder.records()) {
    layers.push_back(view_of(record, tokens));
  }
  return layers;
}

}  // namespace tapestry
