// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "layers/model.h"
#include "layers/transformer.h"
#include "tests/support/gradients.h"
#include "tests/support/model_kind.h"
#include "tests/train/kinds.h"
#include "train/config/config.h"
#include "train/config/load.h"
#include "train/tasks/task.h"

/// Models of every kind, for tests that change the keys of the section `model` and compare models.
namespace tapestry::test {

/// Tiny sizes, different from each other where possible, and no dropout.
inline KindOptions base_options(const KindCase& kind) {
  KindOptions options;
  options.kind = kind.kind;
  options.d_model = 8;
  options.num_heads = 2;
  if (encodes(kind.name)) options.num_encoder_layers = 2;
  if (decodes(kind.name)) options.num_decoder_layers = 3;
  options.d_ff = 12;
  options.dropout = 0.0;
  options.max_length = 9;
  return options;
}

/// A config with the values of base_options().
inline std::string base_config(const KindCase& kind) {
  return "data: {" + kind.data + "}\nmodel: {kind: " + kind.name +
         ", d_model: 8, num_heads: 2, d_ff: 12, dropout: 0, max_length: 9" +
         (encodes(kind.name) ? ", num_encoder_layers: 2" : "") +
         (decodes(kind.name) ? ", num_decoder_layers: 3" : "") + "}\n";
}

inline Config parsed(const KindCase& kind, const std::vector<std::string>& overrides = {}) {
  return parse_config(base_config(kind), "config", overrides);
}

inline KindOptions options_of(const Config& config) {
  return {config.model, model_kind_named(config.model_kind)};
}

inline KindOptions parsed_options(const KindCase& kind,
                                  const std::vector<std::string>& overrides = {}) {
  return options_of(parsed(kind, overrides));
}

/// Returns a function that makes the network of the options.
inline MakeNetwork network_maker(const KindOptions& options, const NetworkSizes& sizes) {
  Config config;
  config.model_kind = model_kind_name(options.kind);
  config.model = options;
  return tapestry::network_maker(config, sizes);
}

/// Vocabularies of different sizes, unless they share an embedding. Models that predict classes
/// have three classes.
inline NetworkSizes sizes_of(const KindOptions& options) {
  const bool shared =
      options.kind == ModelKind::seq2seq && options.tie_embeddings == TiedEmbeddings::all;
  return {.source = shared ? 11u : 13u,
          .target = predicts_classes(model_kind_name(options.kind)) ? 3u : 11u,
          .image = {.height = 4, .width = 8, .channels = 2}};
}

/// Three rows for a network of any kind, with different lengths of source and target, and images. A
/// row ends with padding; source and target have one padding token within their tokens.
inline NetworkInput wiring_input() {
  return {
      .source = {.ids = {{5, 6, 7, 8, 2}, {9, 0, 4, 0, 0}, {3, 10, 0, 0, 0}}, .lengths = {5, 3, 2}},
      .target = {.ids = {{1, 8, 7, 0}, {1, 4, 9, 6}, {1, 5, 0, 0}}, .lengths = {4, 4, 2}},
      .images = random_leaf({3, 4 * 8 * 2}, 5).detach().to(DType::float64)};
}

inline constexpr std::int32_t ignored_label = 0;

/// Labels of wiring_input(); padding has no label.
inline Ids wiring_labels(ModelKind kind) {
  const std::string name = model_kind_name(kind);
  if (find_task(name).traits().one_label_per_example) return {{2}, {1}, {1}};
  if (predicts_classes(name)) return {{1, 2, 1, 1}, {2, 2, 1, 1}, {1, 2, 0, 0}};
  return {{8, 7, 3, 2}, {4, 9, 6, 2}, {5, 2, 0, 0}};
}

}  // namespace tapestry::test
