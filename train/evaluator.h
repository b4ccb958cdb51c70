#pragma once

#include <cstddef>
#include <vector>

#include "data/corpus.h"
#include "train/model.h"

namespace tapestry {

/// How well a model does on a set of sentence pairs.
struct Scores {
  std::size_t sentences = 0;
  std::size_t tokens = 0;       ///< target tokens, <eos> included, <pad> not
  double loss = 0.0;            ///< mean -log p(token), without label smoothing, in nats
  double perplexity = 0.0;      ///< exp(loss)
  double token_accuracy = 0.0;  ///< share of tokens that are the most likely given those before
  std::size_t decoded = 0;      ///< sentences decoded for the next one
  double exact_match = 0.0;     ///< share of decoded outputs equal to the target; 0 if none were
};

struct EvaluationOptions {
  std::size_t batch_size = 64;
  std::size_t decoded_sentences = 0;  ///< so many, spread evenly over the set, are decoded greedily
  std::size_t max_decode_length = 0;  ///< see greedy_decode
};

/// Scores of a model on `pairs`, dropout off. The result does not depend on the batch size beyond
/// rounding.
Scores evaluate(const Model& model, const std::vector<SentencePair>& pairs,
                const EvaluationOptions& options);

}  // namespace tapestry
