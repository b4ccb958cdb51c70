#include "train/load_data.h"

#include "train/storage/image_arrays.h"

namespace tapestry {

Corpus load_data(const DataOptions& options, const FixedVocabularies* fixed) {
  return load_corpus(options, ".", fixed, read_image_arrays);
}

}  // namespace tapestry
