#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "data/batch.h"
#include "data/corpus.h"
#include "layers/model.h"
#include "layers/transformer.h"

namespace tapestry {

/// How well a model does on a set of examples.
struct Scores {
  std::size_t sentences = 0;    ///< examples
  std::size_t tokens = 0;       ///< labels: target tokens, <eos> included, <pad> not; or classes
  double loss = 0.0;            ///< mean -log p(label), without label smoothing, in nats
  double perplexity = 0.0;      ///< exp(loss)
  double token_accuracy = 0.0;  ///< share of labels that are the most likely

  /// Scores of one task alone, each in [0, 1]: "exact_match" of translation, "span_f1" of sequence
  /// tagging.
  std::map<std::string, double> others{};
};

/// Called for each batch that is scored, with the most likely label at each position: (rows,
/// target_length), row-major.
using TakePredictions =
    std::function<void(const Batch& batch, std::span<const std::int32_t> predictions)>;

/// Scores of a model on `examples`, dropout off; what is hidden of masked tokens is always the
/// same. The result does not depend on the batch size beyond rounding.
Scores score_labels(const Model& model, const std::vector<Example>& examples,
                    std::size_t batch_size, const BatchRules& rules,
                    const TakePredictions& take = {});

/// The share of sources whose greedy translation equals the target, see greedy_decode(); 0 for
/// none.
double score_exact_matches(const Transformer& model, const std::vector<Example>& pairs,
                           std::size_t batch_size, std::size_t max_decode_length);

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
