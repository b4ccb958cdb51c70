#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "data/batch.h"
#include "data/corpus.h"
#include "train/model.h"

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

struct EvaluationOptions {
  std::size_t batch_size = 64;
  BatchRules rules{};
  TextUnit unit = TextUnit::word;
  std::size_t decoded_sentences = 0;  ///< translation: so many, spread evenly over the set, are
                                      ///< decoded greedily
  std::size_t max_decode_length = 0;  ///< see greedy_decode
};

/// Scores of a model on `examples`, dropout off; what is hidden of masked tokens is always the
/// same. The result does not depend on the batch size beyond rounding.
Scores evaluate(const Model& model, const std::vector<Example>& examples,
                const EvaluationOptions& options);

/// For examples with classes, the id of the class of each that is most likely.
std::vector<std::int32_t> most_likely_classes(const Model& model,
                                              const std::vector<Example>& examples,
                                              std::size_t batch_size);

}  // namespace tapestry
