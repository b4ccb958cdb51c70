#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/vocabulary.h"

namespace tapestry {

/// One example to learn from. What its parts are depends on the task:
///
///   pairs        a sentence and its translation, with neither <bos> nor <eos>
///   text         target: a stretch of the text, or a sentence with <bos> and <eos>
///   labels       source: <bos> and a sentence; target: the id of its class
///   images       pixels; target: the id of its class
struct Example {
  std::vector<std::int32_t> source{};
  std::vector<std::int32_t> target{};
  std::vector<float> pixels{};  ///< (height, width, channels), as a rule in [0, 1]

  friend bool operator==(const Example&, const Example&) = default;
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
struct Corpus {
  std::vector<Example> train;       ///< never empty
  std::vector<Example> validation;  ///< empty if not asked for
  std::vector<Example> test;        ///< empty if not asked for
  Vocabulary source_vocabulary;
  Vocabulary target_vocabulary;
  std::vector<DataFile> files;     ///< in the order of the config's keys; none of generated data
  std::uint64_t fingerprint = 0;   ///< fingerprint_of() the above, as load_corpus() sets it
  std::vector<std::string> notes;  ///< what was left out and why, a line each, for the log
};

/// The words that a model knows already, for data that it is to learn from as well.
struct FixedVocabularies {
  Vocabulary source;
  std::optional<Vocabulary> target;  ///< none: as the data have it
};

/// XXH3 (64 bits) of all examples and both vocabularies: equal for equal data, and in practice for
/// no other. The files and the notes do not count: the same text under another name is the same
/// data.
std::uint64_t fingerprint_of(const Corpus& corpus);

}  // namespace tapestry
