#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "data/batch.h"
#include "data/corpus.h"
#include "train/model.h"
#include "train/scores.h"

namespace tapestry {

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

/// A class and how likely a model finds it.
struct LikelyClass {
  std::int32_t id = first_word_id;  ///< in the target vocabulary
  double probability = 0.0;         ///< by softmax of the logits, in (0, 1]; NaN if one of them is
};

/// For examples with classes, the most likely of each.
std::vector<LikelyClass> most_likely_classes(const Model& model,
                                             const std::vector<Example>& examples,
                                             std::size_t batch_size);

}  // namespace tapestry
