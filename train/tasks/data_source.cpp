#include "train/tasks/data_source.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "data/io/error.h"
#include "train/tasks/task.h"

namespace tapestry {
namespace {

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

const DataSource& data_source(const DataOptions& options) {
  for (const Task* task : all_tasks()) {
    for (const DataSource* source : task->sources()) {
      if (source->kind.name == options.task) return *source;
    }
  }
  throw std::invalid_argument(fmt::format("data.task: there is no task {}", options.task));
}

Corpus load_corpus(const DataOptions& options, const FixedVocabularies* fixed) {
  Corpus corpus = data_source(options).load(options, fixed);
  if (fixed != nullptr) check_vocabularies(corpus, *fixed);
  corpus.fingerprint = fingerprint(corpus);
  return corpus;
}

TextCodec make_codec(const DataOptions& options, Vocabulary source_vocabulary,
                     Vocabulary target_vocabulary) {
  return TextCodec(data_source(options).format(options), std::move(source_vocabulary),
                   std::move(target_vocabulary));
}

void require_file(const Config& config, const ConfigCheck& check, const char* key,
                  const std::string& file) {
  if (!file.empty()) return;
  check.refuse({"data.task", key}, fmt::format("task {} needs {}", config.data.task, key),
               fmt::format("name the file here or on the command line: {}=FILE", key));
}

}  // namespace tapestry
