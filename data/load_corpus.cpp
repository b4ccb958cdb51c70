#include "data/load_corpus.h"

#include <fmt/format.h>

#include "data/corpora/copy_tasks.h"
#include "data/corpora/images.h"
#include "data/corpora/labelled_text.h"
#include "data/corpora/language_model_corpus.h"
#include "data/corpora/parallel_text.h"
#include "data/corpora/toy_language_tasks.h"
#include "data/io/error.h"

namespace tapestry {

namespace {

const Vocabulary* given_target(const FixedVocabularies* fixed) {
  return fixed != nullptr && fixed->target ? &*fixed->target : nullptr;
}

Corpus make_corpus(const DataOptions& options, const std::filesystem::path& base,
                   const FixedVocabularies* fixed, const ImageFileReader& read_image_arrays) {
  switch (options.task) {
    case TaskKind::toy_translation:
      return make_toy_translation(options);
    case TaskKind::parallel_text:
      return load_parallel_text(options, base, fixed);
    case TaskKind::text:
      return load_language_model_corpus(options, base, fixed);
    case TaskKind::toy_sentences:
      return make_toy_sentences(options);
    case TaskKind::labelled_text:
      return load_labelled_text(options, base, fixed);
    case TaskKind::toy_agreement:
      return make_toy_agreement(options);
    case TaskKind::images:
      return load_images(options, base, read_image_arrays, given_target(fixed));
    case TaskKind::copy:
    case TaskKind::reverse:
    case TaskKind::sort:
      break;
  }
  return make_copy_task(options);
}

void check_vocabularies(const Corpus& corpus, const FixedVocabularies& fixed) {
  const Vocabulary& target = fixed.target ? *fixed.target : corpus.target_vocabulary;
  if (corpus.source_vocabulary == fixed.source && corpus.target_vocabulary == target) return;
  throw DataError(
      fmt::format(
          "data.task: the task has vocabularies of {} and {} entries, expected those of the model "
          "with {} and {}",
          corpus.source_vocabulary.size(), corpus.target_vocabulary.size(), fixed.source.size(),
          target.size()),
      "set data.task and data.num_symbols to the values that the model was trained with");
}

}  // namespace

Corpus load_corpus(const DataOptions& options, const std::filesystem::path& base,
                   const FixedVocabularies* fixed, const ImageFileReader& read_image_arrays) {
  Corpus corpus = make_corpus(options, base, fixed, read_image_arrays);
  if (fixed != nullptr) check_vocabularies(corpus, *fixed);
  corpus.fingerprint = fingerprint(corpus);
  return corpus;
}

}  // namespace tapestry
