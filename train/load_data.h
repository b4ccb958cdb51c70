#pragma once

#include "data/load_corpus.h"

namespace tapestry {

/// load_corpus() from the working folder, with HDF5 files of images.
Corpus load_data(const DataOptions& options, const FixedVocabularies* fixed = nullptr);

}  // namespace tapestry
