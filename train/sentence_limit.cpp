#include "train/sentence_limit.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "data/error.h"

namespace tapestry {
namespace {

void require_fitting(const std::vector<SentencePair>& pairs, const char* part,
                     std::size_t max_length) {
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const std::size_t longest = std::max(pairs[i].source.size(), pairs[i].target.size()) + 1;
    if (longest <= max_length) continue;
    throw DataError(
        fmt::format("{} pair {}: found {} tokens with <eos>, expected at most {} "
                    "(model.max_length)",
                    part, i + 1, longest, max_length),
        fmt::format("set model.max_length to {} or more; data.max_tokens leaves long training "
                    "pairs out",
                    longest));
  }
}

}  // namespace

void require_fitting_sentences(const ParallelCorpus& corpus, std::size_t max_length) {
  require_fitting(corpus.train, "training", max_length);
  require_fitting(corpus.validation, "validation", max_length);
  require_fitting(corpus.test, "test", max_length);
}

}  // namespace tapestry
