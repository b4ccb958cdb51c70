#include "train/load_data.h"

#include "train/image_arrays.h"

namespace tapestry {

ParallelCorpus load_data(const DataOptions& options, const FixedVocabularies* fixed) {
  return load_corpus(options, ".", fixed, read_image_arrays);
}

}  // namespace tapestry
