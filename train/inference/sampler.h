#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "layers/encoder_models.h"

namespace tapestry {

/// How the next token is drawn from the scores of a language model.
struct SamplingOptions {
  double temperature = 1.0;  ///< divides the scores; 0 takes the most likely token
  std::size_t top_k = 0;     ///< the k most likely tokens alone; 0: all
  double top_p = 1.0;        ///< the fewest tokens that are so likely together [1], in (0, 1]
  std::uint64_t seed = 1;
  std::size_t window = 0;  ///< most tokens that the model reads; 0: as it has positions for
};

/// A token from its scores.
///
///   1. scores are divided by the temperature and become probabilities;
///   2. all but the top_k most likely are left out, and all but the fewest whose probabilities,
///      among all tokens, add up to top_p or more;
///   3. one of the others is drawn in proportion to its probability.
///
/// Equal scores are ordered by id; a score of -inf is never drawn beside others. `uniform` is in
/// [0, 1).
///
/// [1] Holtzman et al. 2020, "The Curious Case of Neural Text Degeneration".
std::int32_t draw_token(std::vector<double> scores, const SamplingOptions& options, double uniform);

/// Goes on with `prompt`, which must not be empty: `count` tokens, each of which is given to `take`
/// as it comes. The model reads as many of the last tokens as the options and its positions allow.
/// Token i depends on the seed, i and the tokens before alone. Special symbols are never drawn.
void generate(const LanguageModel& model, std::vector<std::int32_t> prompt, std::size_t count,
              const SamplingOptions& options, const std::function<void(std::int32_t)>& take);

}  // namespace tapestry
