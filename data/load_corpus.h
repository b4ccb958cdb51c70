#pragma once

#include <filesystem>

#include "data/corpus.h"
#include "data/options.h"

namespace tapestry {

/// Generates or reads the corpus that the options describe, fingerprint included. Paths of
/// parallel_text that are relative start at `base`.
///
/// With `fixed`, text is encoded with these vocabularies instead of its own: the words that they
/// lack are unknown, and a model of their sizes can go on learning from it.
///
/// throws  DataError if the data cannot be had, see toy_tasks.h, toy_translation.h and
///         parallel_text.h; if a generated task has other vocabularies than `fixed`.
ParallelCorpus load_corpus(const DataOptions& options, const std::filesystem::path& base,
                           const FixedVocabularies* fixed = nullptr);

}  // namespace tapestry
