#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/vocabulary.h"

namespace tapestry {

/// A sentence and its translation as ids, with neither <bos> nor <eos>.
struct SentencePair {
  std::vector<std::int32_t> source;
  std::vector<std::int32_t> target;

  friend bool operator==(const SentencePair&, const SentencePair&) = default;
};

/// Everything a run learns from and is measured on.
struct ParallelCorpus {
  std::vector<SentencePair> train;       ///< never empty
  std::vector<SentencePair> validation;  ///< empty if not asked for
  std::vector<SentencePair> test;        ///< empty if not asked for
  Vocabulary source_vocabulary;
  Vocabulary target_vocabulary;
  std::uint64_t fingerprint = 0;   ///< fingerprint_of() the above, as load_corpus() sets it
  std::vector<std::string> notes;  ///< what was left out and why, a line each, for the log
};

/// XXH3 (64 bits) of all pairs and both vocabularies: equal for equal data, and in practice for no
/// other. The notes do not count.
std::uint64_t fingerprint_of(const ParallelCorpus& corpus);

}  // namespace tapestry
