#pragma once

#include <filesystem>

#include "data/corpus.h"
#include "data/options.h"

namespace tapestry {

/// Generates or reads the corpus that the options describe, fingerprint included. Paths of
/// parallel_text that are relative start at `base`.
///
/// throws  DataError if the data cannot be had; see toy_tasks.h, toy_translation.h and
///         parallel_text.h.
ParallelCorpus load_corpus(const DataOptions& options, const std::filesystem::path& base);

}  // namespace tapestry
