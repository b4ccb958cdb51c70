#include "data/load_corpus.h"

#include "data/parallel_text.h"
#include "data/toy_tasks.h"
#include "data/toy_translation.h"

namespace tapestry {

namespace {

ParallelCorpus make_corpus(const DataOptions& options, const std::filesystem::path& base) {
  switch (options.task) {
    case TaskKind::toy_translation:
      return make_toy_translation(options);
    case TaskKind::parallel_text:
      return load_parallel_text(options, base);
    case TaskKind::copy:
    case TaskKind::reverse:
    case TaskKind::sort:
      break;
  }
  return make_toy_corpus(options);
}

}  // namespace

ParallelCorpus load_corpus(const DataOptions& options, const std::filesystem::path& base) {
  ParallelCorpus corpus = make_corpus(options, base);
  corpus.fingerprint = fingerprint_of(corpus);
  return corpus;
}

}  // namespace tapestry
