#pragma once

#include <filesystem>

#include "data/corpora/images.h"
#include "data/corpus.h"
#include "data/options.h"

namespace tapestry {

/// Generates or reads the corpus of options.task, fingerprint included. Relative paths start at
/// `base`. Without `read_image_arrays`, images are read from tables only (see load_images()).
///
/// With `fixed` vocabularies of a trained model, text is encoded with them and words they lack are
/// unknown.
///
/// throws  DataError as the functions in data/corpora/ do; if a generated task has vocabularies
///         other than `fixed`.
Corpus load_corpus(const DataOptions& options, const std::filesystem::path& base,
                   const FixedVocabularies* fixed = nullptr,
                   const ImageFileReader& read_image_arrays = {});

}  // namespace tapestry
