#pragma once

#include <cstddef>

#include "data/batch.h"
#include "data/options.h"

namespace tapestry {

/// How well a model does on a set of examples.
struct Scores {
  Objective objective = Objective::translation;
  TextUnit unit = TextUnit::word;  ///< what a token is
  std::size_t sentences = 0;
  std::size_t tokens = 0;       ///< labels: target tokens, <eos> included, <pad> not; or classes
  double loss = 0.0;            ///< mean -log p(token), without label smoothing, in nats
  double perplexity = 0.0;      ///< exp(loss)
  double token_accuracy = 0.0;  ///< share of labels that are the most likely
  std::size_t decoded = 0;      ///< sentences decoded for the next one
  double exact_match = 0.0;     ///< share of decoded outputs equal to the target; 0 if none were
};

}  // namespace tapestry
