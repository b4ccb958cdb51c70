#pragma once

#include <filesystem>

#include "data/corpus.h"
#include "data/labelled_images.h"
#include "data/options.h"

namespace tapestry {

/// Generates or reads the corpus that the options describe, fingerprint included. Relative paths
/// start at `base`. Without `read_image_arrays`, images are read from tables only, see
/// labelled_images.h.
///
/// With `fixed`, text is encoded with these vocabularies instead of its own: the words that they
/// lack are unknown, and a model of their sizes can go on learning from it.
///
/// throws  DataError if the data cannot be had, see toy_tasks.h, toy_translation.h and
///         parallel_text.h; if a generated task has other vocabularies than `fixed`.
Corpus load_corpus(const DataOptions& options, const std::filesystem::path& base,
                   const FixedVocabularies* fixed = nullptr,
                   const ImageFileReader& read_image_arrays = {});

}  // namespace tapestry
