#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "data/corpus.h"
#include "data/text/codec.h"
#include "train/config/config.h"
#include "train/model.h"

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

/// The weights of every call of attention while a model reads an example, in the order of the
/// calls, dropout off. A decoder reads the target that the example has, and a masked language model
/// all of its tokens.
///
/// Words and characters have the names of the vocabularies, <unk> for what is not in them; the
/// tokens of an image are "class" and the row and column of each patch, "0,1".
std::vector<LayerAttention> attention_of(const Model& model, const Config& config,
                                         const TextCodec& codec, const Example& example);

}  // namespace tapestry
