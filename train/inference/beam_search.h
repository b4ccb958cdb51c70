#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "data/batch.h"
#include "layers/model.h"

namespace tapestry {

/// Token ids of a sentence, with neither <bos> nor <eos>.
using Sentence = std::vector<std::int32_t>;

/// Options of beam_search(). The member initializers are the defaults: greedy decoding.
struct SearchOptions {
  std::size_t beam_size = 1;  ///< hypotheses that are extended at once, >= 1; 1: greedy
  std::size_t num_best = 1;   ///< outputs of each source, in [1, beam_size]
  /// Exponent alpha >= 0 of the length normalization [1]: finished hypotheses Y are ordered by
  /// log p(Y | X) / ((5 + |Y|) / 6)^alpha, where |Y| counts <eos>. 0: by log p(Y | X).
  double length_penalty = 0.0;
  std::size_t min_length = 0;   ///< minimum tokens of an output
  std::size_t max_length = 0;   ///< maximum tokens of an output; 0: those of its source + 50
  std::size_t batch_size = 64;  ///< maximum sources that are decoded at once, >= 1
};

/// An output of beam_search().
struct Hypothesis {
  Sentence tokens;             ///< the output
  double log_probability = 0;  ///< log p(tokens, <eos> | source); without <eos> if it was cut
  double score = 0;            ///< log_probability after length normalization
};

/// Translates sources by beam search [1, 2]. At each step the beam_size most likely extensions of a
/// source's hypotheses by one token are kept; among equal ones those of the more likely hypothesis
/// and then the lowest id. Extensions by <eos> among the beam_size most likely ones are finished.
/// The search for a source ends when beam_size hypotheses are finished, or when no unfinished one
/// can become better than the num_best finished ones. An output that has reached its maximum length
/// is cut: it ends without <eos>.
///
/// With beam_size 1 this is greedy decoding. Sources are decoded in batches of similar length, and
/// leave their batch when they end. Each result depends on its own source alone, in every bit.
///
/// network    reads source and target tokens
/// positions  maximum number of target tokens that the network reads; outputs have at most
///            positions - 1 tokens, since <bos> takes one
/// returns    for each source, in order, its num_best outputs or fewer, the best first; none if its
///            logits are NaN
/// throws     std::invalid_argument for options outside their range; ShapeError for a source longer
///            than the network's positions
///
/// [1] Wu et al. 2016, "Google's Neural Machine Translation System", section 7; without coverage
///     penalty.
/// [2] Sutskever et al. 2014, "Sequence to Sequence Learning with Neural Networks", section 3.2.
std::vector<std::vector<Hypothesis>> beam_search(const Network& network, std::size_t positions,
                                                 const std::vector<Sentence>& sources,
                                                 const SearchOptions& options = {});

/// The best output of each source; empty if its logits are NaN.
std::vector<Sentence> decode(const Network& network, std::size_t positions,
                             const std::vector<Sentence>& sources,
                             const SearchOptions& options = {});

/// The share of pairs whose source is decoded to the target; 0 if there are no pairs.
double score_exact_matches(const Network& network, std::size_t positions,
                           const std::vector<Example>& pairs, const SearchOptions& options = {});

}  // namespace tapestry
