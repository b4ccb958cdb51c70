// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/text/vocabulary.h"
#include "layers/model.h"
#include "train/tasks/task.h"

/// Models whose parameters are set by hand, so that their outputs are known.
namespace tapestry::test {

/// Creates a model; `kind` is a value of model.kind.
inline Model make_model(const std::string& kind, const TransformerOptions& options,
                        const NetworkSizes& sizes, DType dtype, std::uint64_t seed) {
  Config config;
  config.model_kind = kind;
  config.model = options;
  return Model(network_maker(config, sizes), dtype, seed);
}

/// The special symbols <pad>, <unk>, <bos> and <eos>, and the tokens 4 to 9.
inline constexpr std::size_t hand_made_vocabulary = 10;

/// One encoder layer, one decoder layer, one head, one dimension per token, learned positions.
inline TransformerOptions hand_made_options(std::size_t max_length) {
  return {.d_model = hand_made_vocabulary,
          .num_heads = 1,
          .num_encoder_layers = 1,
          .num_decoder_layers = 1,
          .d_ff = 4,
          .dropout = 0.0,
          .positions = PositionKind::learned,
          .max_length = max_length,
          .tie_embeddings = TiedEmbeddings::none};
}

inline void set(Model& model, std::string_view name, const std::vector<double>& values) {
  Tensor tensor = model.parameters.find(name)->tensor;
  std::copy(values.begin(), values.end(), tensor.mutable_values<double>().begin());
}

/// Sets all parameters except norm weights to 0, so that all tokens get the same score.
inline void silence(Model& model) {
  for (const NamedTensor& parameter : model.parameters) {
    const bool is_norm = parameter.name.ends_with("norm.weight");
    set(model, parameter.name, std::vector<double>(parameter.tensor.size(), is_norm ? 1.0 : 0.0));
  }
}

/// A model that gives these scores to the tokens at every position.
inline Model model_with_scores(const std::vector<double>& scores, std::size_t max_length = 16) {
  Model model = make_model("seq2seq", hand_made_options(max_length),
                           {hand_made_vocabulary, scores.size()}, DType::float64, 1);
  silence(model);
  set(model, "output.bias", scores);
  return model;
}

/// A model whose output is "4 5 <eos>", or only <eos> if the source contains 9. A source must not
/// contain 8.
///
/// Embeddings are one-hot and the decoder preserves them, so the score of a token depends on the
/// dimension of the previous token. Cross-attention is uniform and adds the mean of the source: the
/// difference between dimensions 9 and 8 is 0 unless the source contains 9.
inline Model model_that_stops_at_9() {
  constexpr std::size_t n = hand_made_vocabulary;
  Model model = make_model("seq2seq", hand_made_options(16), {n, n}, DType::float64, 1);
  silence(model);
  std::vector<double> identity(n * n, 0.0);
  for (std::size_t i = 0; i < n; ++i) identity[i * n + i] = 1.0;
  for (const char* name : {"source_embedding.weight", "target_embedding.weight",
                           "decoder.layers.0.cross_attn.v_proj.weight",
                           "decoder.layers.0.cross_attn.out_proj.weight"}) {
    set(model, name, identity);
  }
  std::vector<double> scores(n * n, 0.0);
  const auto score = [&](std::size_t token, std::size_t dimension) -> double& {
    return scores[token * n + dimension];
  };
  score(4, bos_id) = 1.0;
  score(5, 4) = 1.0;
  score(eos_id, 5) = 1.0;
  score(eos_id, 9) = 100.0;
  score(eos_id, 8) = -100.0;
  set(model, "output.weight", scores);
  return model;
}

}  // namespace tapestry::test
