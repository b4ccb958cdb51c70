// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/batch.h"
#include "data/text/vocabulary.h"
#include "layers/model.h"

namespace tapestry {

/// The log-probabilities log p(y_t | y_1 ... y_t-1, source) of the tokens of a target and of the
/// <eos> after them, in nats.
using TokenScores = std::vector<double>;

/// Scores given targets, with dropout disabled. A sum over a target is Hypothesis::log_probability
/// of beam_search(), up to rounding. The bits of each score depend only on its pair.
///
/// network       reads source and target tokens; each side of a pair, with <eos>, must fit into its
///               positions
/// batch_tokens  maximum source and target tokens of a batch, with padding; a pair with more tokens
///               is a separate batch
/// returns       for each pair, in order, the scores of its target tokens and <eos>
std::vector<TokenScores> score_pairs(const Network& network, const std::vector<Example>& pairs,
                                     std::size_t batch_tokens = 4096);

/// Batches of pairs of similar length, which contain every pair once, the longest pairs first. A
/// batch has at most `tokens` source and target tokens, including <eos> and padding, unless it is a
/// single pair with more tokens.
std::vector<std::vector<std::size_t>> pair_batches(const std::vector<Example>& pairs,
                                                   std::size_t tokens);

/// The names of the decoder layers whose cross-attention a network computes, in order, such as
/// "decoder.layers.0.cross_attn"; empty without cross-attention.
std::vector<std::string> cross_attention_layers(const Network& network);

/// Aligns each target token with the source token that it attends to most [1, 2]:
///
///     a_t = argmax_s 1/H sum_h A_h(t, s)
///
/// where A_h(t, s) is the cross-attention of head h of one decoder layer when token t is predicted.
/// <eos> of the source is not aligned. In [1], the penultimate layer aligns best.
///
/// layer     one of cross_attention_layers()
/// returns   for each pair and target token the index of a source token; empty for a source without
///           tokens
///
/// [1] Garg et al. 2019, "Jointly Learning to Align and Translate with Transformer Models",
///     section 4.1.
/// [2] Zenkel et al. 2019, "Adding Interpretable Attention to Neural Translation Models Improves
///     Word Alignment".
std::vector<std::vector<std::size_t>> align_tokens(const Network& network,
                                                   const std::vector<Example>& pairs,
                                                   const std::string& layer);

/// The index, from 0, of the word that each token belongs to. A piece of a subword model begins a
/// word if it begins with U+2581, which represents a space, unless the word before it consists only
/// of this character. Without subwords, each token is a word.
std::vector<std::size_t> word_indices(const Vocabulary& vocabulary,
                                      std::span<const std::int32_t> ids);

/// Two aligned words, by their indices.
struct WordLink {
  std::size_t target, source;
  friend auto operator<=>(const WordLink&, const WordLink&) = default;
};

/// The links between the words of aligned tokens, each once, in ascending order of the target word
/// and then of the source word.
///
/// alignment     from align_tokens(): for each target token the index of a source token
/// source_words  word_indices() of the source
/// target_words  word_indices() of the target
std::vector<WordLink> link_words(const std::vector<std::size_t>& alignment,
                                 const std::vector<std::size_t>& source_words,
                                 const std::vector<std::size_t>& target_words);

}  // namespace tapestry
