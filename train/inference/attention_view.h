// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "data/batch.h"
#include "data/text/vocabulary.h"
#include "layers/model.h"

namespace tapestry {

/// The attention weights of one layer on one example.
struct LayerAttention {
  std::string layer;            ///< the path of the layer, such as "encoder.layers.0.self_attn"
  Tokens queries;               ///< names of the query tokens
  Tokens keys;                  ///< names of the key tokens
  std::size_t num_heads = 0;    ///< number of attention heads
  std::vector<double> weights;  ///< (num_heads, queries, keys); each row sums to 1

  /// The weight of a key for a query of a head, in [0, 1]; indices are not checked.
  double weight(std::size_t head, std::size_t query, std::size_t key) const {
    return weights[(head * queries.size() + query) * keys.size() + key];
  }
};

/// The names of the tokens that each stack of a model reads. If a model has one stack, both members
/// are equal.
struct StackTokens {
  Tokens encoder;  ///< tokens of the encoder
  Tokens decoder;  ///< tokens of the decoder
};

/// The attention weights of a model on one example.
struct AttentionViews {
  std::vector<LayerAttention> layers;  ///< layers in the order of their calls
  std::vector<std::string> notes;      ///< names of the layers that are left out, with the reasons
};

/// The weights of every attention call while a model reads a batch of one example, with dropout
/// disabled. A layer is named by its path: "encoder..." reads the encoder's tokens, "...cross_attn"
/// attends to the encoder's tokens, and every other layer reads the decoder's tokens. A layer of a
/// custom model whose weights have a different shape is left out with a note.
///
/// tokens  the names of the tokens in the batch
AttentionViews attention_weights(const Model& model, const Batch& batch, const StackTokens& tokens);

// ---- Attention weights as tables and as JSON, as `tapestry attention` prints them

/// Heads `begin` to `end`, exclusive.
struct HeadRange {
  std::size_t begin;  ///< the first head
  std::size_t end;    ///< one past the last head
};

/// One table for each head of each layer: a row per query with its weights in per cent; a dot marks
/// a weight of exactly 0.
std::string attention_tables(const std::vector<LayerAttention>& layers, HeadRange heads);

/// One JSON object on one line:
///
///     {"model": ..., "example": ..., "layers": [{"layer": path, "queries": [...], "keys": [...],
///      "heads": [{"head": h, "weights": [a row for each query: [a number for each key]]}]}]}
std::string attention_json(const std::vector<LayerAttention>& layers, HeadRange heads,
                           const std::string& model, const std::string& example);

}  // namespace tapestry
