#include "train/known_words.h"

#include <fmt/format.h>

#include "data/error.h"

namespace tapestry {

void require_known_words(const TextCodec& codec, const ParallelCorpus& corpus,
                         const std::string& run) {
  if (corpus.source_vocabulary == codec.source_vocabulary() &&
      corpus.target_vocabulary == codec.target_vocabulary()) {
    return;
  }
  throw DataError(fmt::format("{}: the training data have changed: found vocabularies of {} and {} "
                              "entries, expected the {} and {} that the model knows",
                              run, corpus.source_vocabulary.size(), corpus.target_vocabulary.size(),
                              codec.source_vocabulary().size(), codec.target_vocabulary().size()),
                  "put the original training files back");
}

}  // namespace tapestry
