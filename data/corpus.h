#pragma once

#include <cstdint>
#include <filesystem>
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

/// A file that a corpus was read from, as it was when it was read.
struct DataFile {
  std::string key;             ///< of the config, such as "data.train_source"
  std::filesystem::path path;  ///< as it was opened
  std::uint64_t bytes;         ///< its size
  std::uint64_t digest;        ///< XXH3 (64 bits) of all its bytes

  friend bool operator==(const DataFile&, const DataFile&) = default;
};

/// Everything a run learns from and is measured on.
struct ParallelCorpus {
  std::vector<SentencePair> train;       ///< never empty
  std::vector<SentencePair> validation;  ///< empty if not asked for
  std::vector<SentencePair> test;        ///< empty if not asked for
  Vocabulary source_vocabulary;
  Vocabulary target_vocabulary;
  std::vector<DataFile> files;     ///< in the order of the config's keys; none of generated data
  std::uint64_t fingerprint = 0;   ///< fingerprint_of() the above, as load_corpus() sets it
  std::vector<std::string> notes;  ///< what was left out and why, a line each, for the log
};

/// The words that a model knows already, for data that it is to learn from as well.
struct FixedVocabularies {
  Vocabulary source;
  Vocabulary target;
};

/// XXH3 (64 bits) of all pairs and both vocabularies: equal for equal data, and in practice for no
/// other. The files and the notes do not count: the same text under another name is the same data.
std::uint64_t fingerprint_of(const ParallelCorpus& corpus);

}  // namespace tapestry
