#include "train/sentence_limit.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "data/io/error.h"
#include "train/objective.h"

namespace tapestry {
namespace {

[[noreturn]] void refuse_pair(const char* part, std::size_t number, std::size_t tokens,
                              std::size_t most) {
  throw DataError(
      fmt::format("{} pair {}: found {} tokens with <eos>, expected at most {} (model.max_length)",
                  part, number, tokens, most),
      fmt::format("set model.max_length to {} or more; data.max_tokens leaves long training pairs "
                  "out",
                  tokens));
}

[[noreturn]] void refuse_sentence(const char* part, std::size_t number, std::size_t tokens,
                                  std::size_t most) {
  throw DataError(fmt::format("{} sentence {}: found {} tokens to read, expected at most {} "
                              "(model.max_length)",
                              part, number, tokens, most),
                  fmt::format("set model.max_length to {} or more", tokens));
}

void require_fitting(const std::vector<Example>& pairs, const char* part,
                     const TransformerOptions& model) {
  const Objective objective = objective_of(model.kind);
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const std::size_t longest = longest_side(pairs[i], objective);
    if (longest <= model.max_length) continue;
    const bool pair = objective == Objective::translation;
    (pair ? refuse_pair : refuse_sentence)(part, i + 1, longest, model.max_length);
  }
}

}  // namespace

void require_fitting_sentences(const Corpus& corpus, const TransformerOptions& model) {
  require_fitting(corpus.train, "training", model);
  require_fitting(corpus.validation, "validation", model);
  require_fitting(corpus.test, "test", model);
}

}  // namespace tapestry
