#include "data/load_corpus.h"

#include <fmt/format.h>

#include "data/error.h"
#include "data/parallel_text.h"
#include "data/toy_tasks.h"
#include "data/toy_translation.h"

namespace tapestry {

namespace {

ParallelCorpus make_corpus(const DataOptions& options, const std::filesystem::path& base,
                           const FixedVocabularies* fixed) {
  switch (options.task) {
    case TaskKind::toy_translation:
      return make_toy_translation(options);
    case TaskKind::parallel_text:
      return load_parallel_text(options, base, fixed);
    case TaskKind::copy:
    case TaskKind::reverse:
    case TaskKind::sort:
      break;
  }
  return make_toy_corpus(options);
}

void check_vocabularies(const ParallelCorpus& corpus, const FixedVocabularies& fixed) {
  if (corpus.source_vocabulary == fixed.source && corpus.target_vocabulary == fixed.target) return;
  throw DataError(
      fmt::format(
          "data.task: the task has vocabularies of {} and {} entries, expected the {} and {} "
          "that the model knows",
          corpus.source_vocabulary.size(), corpus.target_vocabulary.size(), fixed.source.size(),
          fixed.target.size()),
      "set data.task and data.num_symbols to what they were");
}

}  // namespace

ParallelCorpus load_corpus(const DataOptions& options, const std::filesystem::path& base,
                           const FixedVocabularies* fixed) {
  ParallelCorpus corpus = make_corpus(options, base, fixed);
  if (fixed != nullptr) check_vocabularies(corpus, *fixed);
  corpus.fingerprint = fingerprint_of(corpus);
  return corpus;
}

}  // namespace tapestry
