#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "data/batch.h"
#include "data/text/vocabulary.h"
#include "layers/model.h"

namespace tapestry {

/// What the heads of one layer look at in one example.
struct LayerAttention {
  std::string layer;  ///< its path, such as "encoder.layers.0.self_attn"
  Tokens queries;     ///< the tokens that look, by name
  Tokens keys;        ///< the tokens that are looked at
  std::size_t num_heads = 0;
  std::vector<double> weights;  ///< (num_heads, queries, keys); each row adds up to 1

  double weight(std::size_t head, std::size_t query, std::size_t key) const {
    return weights[(head * queries.size() + query) * keys.size() + key];
  }
};

/// The names of the tokens that each stack of a model reads; a model with one stack has them in
/// both places.
struct StackTokens {
  Tokens encoder, decoder;
};

/// The weights of every call of attention while a model reads a batch of one example, in the order
/// of the calls, dropout off.
std::vector<LayerAttention> attention_weights(const Model& model, const Batch& batch,
                                              const StackTokens& tokens);

}  // namespace tapestry
