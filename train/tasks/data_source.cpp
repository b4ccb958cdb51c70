#include "train/tasks/data_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include "data/corpora/held_out.h"
#include "data/io/error.h"
#include "train/error.h"
#include "train/format.h"
#include "train/platform/memory.h"
#include "train/tasks/task.h"

namespace tapestry {
namespace {

void check_vocabularies(const Corpus& corpus, const FixedVocabularies& fixed) {
  const Vocabulary& target = fixed.target ? *fixed.target : corpus.target_vocabulary;
  if (corpus.source_vocabulary == fixed.source && corpus.target_vocabulary == target) return;
  throw OtherVocabularies(
      fmt::format(
          "data.task: the task has vocabularies of {} and {} entries, expected those of the model "
          "with {} and {}",
          corpus.source_vocabulary.size(), corpus.target_vocabulary.size(), fixed.source.size(),
          target.size()),
      "set data.task and data.num_symbols to the values that the model was trained with");
}

/// The size of a generated part, and its key.
struct GeneratedSize {
  std::size_t GeneratedOptions::*size;
  const char* key;
};

constexpr std::array generated_sizes{
    GeneratedSize{&GeneratedOptions::train_size, "data.train_size"},
    GeneratedSize{&GeneratedOptions::validation_size, "data.validation_size"},
    GeneratedSize{&GeneratedOptions::test_size, "data.test_size"}};

/// Mean bytes of an example of a generated task, measured on a few for training.
double bytes_per_example(const DataSource& source, DataOptions options) {
  constexpr std::size_t few = 64;
  constexpr std::size_t per_allocation = 16;
  options.train_size = few;
  options.validation_size = options.test_size = 0;
  const std::vector<Example> examples = source.load(options, nullptr).train;
  std::size_t bytes = 0;
  for (const Example& example : examples) {
    bytes += sizeof(Example) + 2 * per_allocation +
             (example.source.size() + example.target.size()) * sizeof(std::int32_t);
  }
  return static_cast<double>(bytes) / static_cast<double>(examples.size());
}

/// throws  MemoryError, naming the key of the largest part, if the examples of a generated task
///         need more memory than the process can have.
void require_memory_for_data(const DataSource& source, const DataOptions& options) {
  constexpr std::size_t enough = 100'000;  // below, the memory is not worth a thought
  if (std::ranges::find(source.kind.keys, "data.train_size") == source.kind.keys.end()) return;
  const GeneratedSize& largest = *std::ranges::max_element(
      generated_sizes, {}, [&](const GeneratedSize& part) { return options.*part.size; });
  const std::size_t most = options.*largest.size;
  if (most < enough) return;
  const double need = static_cast<double>(most) * bytes_per_example(source, options);
  const AvailableMemory available = read_available_memory();
  if (need <= static_cast<double>(available.total)) return;
  throw MemoryError(
      fmt::format(
          "{}: {} sequences need about {}, found {}{}", largest.key, format_count(most),
          format_bytes(static_cast<std::uint64_t>(need)), format_bytes(available.total),
          available.bound.empty() ? " in this machine" : fmt::format(" ({})", available.bound)),
      fmt::format("lower {}", largest.key));
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
  const DataSource& source = data_source(options);
  require_memory_for_data(source, options);
  Corpus corpus = source.load(options, fixed);
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
