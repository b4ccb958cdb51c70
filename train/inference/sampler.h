// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "layers/model.h"

namespace tapestry {

/// Options for sampling the next token from the scores of a language model.
struct SamplingOptions {
  double temperature = 1.0;         ///< divides the scores; 0: always the most likely token
  std::size_t top_k = 0;            ///< sample only from the k most likely tokens; 0: all
  double top_p = 1.0;               ///< minimum total probability of the kept tokens [1], in (0, 1]
  double repetition_penalty = 1.0;  ///< > 0; see penalize_repetition(); 1: no penalty
  std::uint64_t seed = 1;
  std::size_t window = 0;  ///< maximum number of tokens that the model reads; 0: all its positions
};

/// Samples a token.
///
///   1. The scores are divided by the temperature and become probabilities by softmax.
///   2. Only the top_k most likely tokens are kept, and of them only the smallest set whose total
///      probability, relative to all tokens, is at least top_p.
///   3. One of the kept tokens is drawn in proportion to its probability.
///
/// Equal scores are ordered by id; a token with score -inf is never drawn if another score is
/// larger. `uniform` is in [0, 1).
///
/// [1] Holtzman et al. 2020, "The Curious Case of Neural Text Degeneration".
std::int32_t draw_token(const std::vector<double>& scores, const SamplingOptions& options,
                        double uniform);

/// Makes tokens that have occurred less likely, for a penalty > 1: their scores are divided by the
/// penalty if they are positive and multiplied by it if they are negative. [1] divides in both
/// cases, which would make tokens with negative scores more likely.
///
/// [1] Keskar et al. 2019, "CTRL: A Conditional Transformer Language Model for Controllable
///     Generation", section 4.1.
void penalize_repetition(std::vector<double>& scores, std::span<const std::int32_t> occurred,
                         double penalty);

/// Continues `prompt`, which must not be empty, by `count` tokens and passes each token to `take`
/// when it has been sampled. The model reads as many of the last tokens as the options and its
/// positions allow. Token i depends only on the seed, i and the preceding tokens. Special symbols
/// are never sampled. Throws NumericError if logits are NaN or infinite.
///
/// network    its logits at a position predict the next target token
/// positions  the maximum number of tokens that the network reads
void generate(const Network& network, std::size_t positions, std::vector<std::int32_t> prompt,
              std::size_t count, const SamplingOptions& options,
              const std::function<void(std::int32_t)>& take);

/// The incremental decoder of the network (Network::start_decoding) or, without an incremental
/// decoder, a decoder that computes the whole sequences for each token. The network must outlive
/// it.
///
/// sources  for networks that read source tokens
std::unique_ptr<IncrementalDecoder> make_decoder(const Network& network, const TokenBatch& sources);

}  // namespace tapestry
