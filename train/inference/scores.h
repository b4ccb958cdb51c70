#pragma once

#include <cstddef>
#include <map>
#include <string>

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

}  // namespace tapestry
