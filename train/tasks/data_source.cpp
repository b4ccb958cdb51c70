// SPDX-License-Identifier: BSD-3-Clause
#include "train/tasks/data_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "data/io/error.h"
#include "data/io/memory.h"
#include "data/io/utf8.h"
#include "data/readers/generated_corpus.h"
#include "train/base/error.h"
#include "train/base/format.h"
#include "train/tasks/task.h"

namespace tapestry {
namespace {

/// Rejects a vocabulary of generated examples that differs from the model's vocabulary.
void check_vocabulary(const Vocabulary& generated, const Vocabulary& of_model, const char* side) {
  if (generated == of_model) return;
  std::string found = fmt::format("{} entries, expected {}", generated.size(), of_model.size());
  if (generated.size() == of_model.size()) {
    std::int32_t id = 0;
    const auto last = static_cast<std::int32_t>(generated.size()) - 1;
    while (id < last && generated.token(id) == of_model.token(id)) ++id;
    found = fmt::format("`{}` as entry {}, expected `{}`", escaped(generated.token(id)), id + 1,
                        escaped(of_model.token(id)));
  }
  throw OtherVocabularies(
      fmt::format("data.task: the {} vocabulary of the task has {} as in the model", side, found),
      "set data.task and data.num_symbols to the values that the model was trained with");
}

void check_vocabularies(const Corpus& corpus, const FixedVocabularies& fixed) {
  check_vocabulary(corpus.source_vocabulary, fixed.source, "source");
  if (fixed.target) check_vocabulary(corpus.target_vocabulary, *fixed.target, "target");
}

/// The size of a generated part, and the key that sets it.
struct GeneratedSize {
  std::size_t GeneratedOptions::*size;
  const char* key;
};

constexpr std::array generated_sizes{
    GeneratedSize{&GeneratedOptions::train_size, "data.train_size"},
    GeneratedSize{&GeneratedOptions::validation_size, "data.validation_size"},
    GeneratedSize{&GeneratedOptions::test_size, "data.test_size"}};

/// The mean size in bytes of an example of a generated task, measured on a few training examples.
double bytes_per_example(const DataSource& source, DataOptions options) {
  constexpr std::size_t measured = 64;
  constexpr std::size_t per_allocation = 16;
  options.generated.train_size = measured;
  options.generated.validation_size = options.generated.test_size = 0;
  const std::vector<Example> examples = source.load(options, nullptr).train;
  std::size_t bytes = 0;
  for (const Example& example : examples) {
    bytes += sizeof(Example) + 2 * per_allocation +
             (example.source.size() + example.target.size()) * sizeof(std::int32_t);
  }
  return static_cast<double>(bytes) / static_cast<double>(examples.size());
}

/// throws  MemoryError, which names the key of the largest part, if the examples of a generated
///         task need more memory than is available.
void require_memory_for_data(const DataSource& source, const DataOptions& options) {
  constexpr std::size_t min_checked = 100'000;  // fewer examples need little memory
  if (std::ranges::find(source.kind.keys, "data.train_size") == source.kind.keys.end()) return;
  const GeneratedSize& largest = *std::ranges::max_element(
      generated_sizes, {}, [&](const GeneratedSize& part) { return options.generated.*part.size; });
  const std::size_t count = options.generated.*largest.size;
  if (count < min_checked) return;
  const double need = static_cast<double>(count) * bytes_per_example(source, options);
  const AvailableMemory available = read_available_memory();
  if (need <= static_cast<double>(available.total)) return;
  throw MemoryError(
      fmt::format(
          "{}: {} sequences need about {}, found {}{}", largest.key, format_count(count),
          format_bytes(static_cast<std::uint64_t>(need)), format_bytes(available.total),
          available.bound.empty() ? " in this machine" : fmt::format(" ({})", available.bound)),
      fmt::format("lower {}", largest.key));
}

/// The files of a part such as "train", by the remainder of their key, such as "source".
std::multimap<std::string, const DataFile*> files_of_part(const Corpus& corpus,
                                                          const std::string& part) {
  const std::string prefix = "data." + part + "_";
  std::multimap<std::string, const DataFile*> files;
  for (const DataFile& file : corpus.files) {
    const std::string key = config_key(file.key);
    if (key.starts_with(prefix)) files.emplace(key.substr(prefix.size()), &file);
  }
  return files;
}

bool have_equal_content(const DataFile& a, const DataFile& b) {
  return a.bytes == b.bytes && a.digest == b.digest;
}

/// Adds a note for each part whose sources and targets are the same text.
void note_equal_sides(Corpus& corpus) {
  for (const std::string part : {"train", "validation", "test"}) {
    const auto files = files_of_part(corpus, part);
    const auto source = files.find("source"), target = files.find("target");
    if (source == files.end() || target == files.end()) continue;
    if (!have_equal_content(*source->second, *target->second)) continue;
    corpus.notes.push_back(
        fmt::format("warning: data.{0}_target has the same content as data.{0}_source: the model "
                    "would learn to copy; name the file of the other language",
                    part));
  }
}

/// Adds a note for each held-out part if all its files have the content of training files.
void note_equal_files(Corpus& corpus) {
  const auto training = files_of_part(corpus, "train");
  for (const std::string part : {"validation", "test"}) {
    const auto held_out = files_of_part(corpus, part);
    const bool equal = std::ranges::all_of(held_out, [&](const auto& file) {
      const auto [begin, end] = training.equal_range(file.first);
      return std::any_of(begin, end, [&](const auto& other) {
        return have_equal_content(*other.second, *file.second);
      });
    });
    if (held_out.empty() || !equal) continue;
    const std::string& name = held_out.begin()->first;
    corpus.notes.push_back(
        fmt::format("warning: data.{}_{} has the same content as data.train_{}: scores of this set "
                    "are scores of training examples",
                    part, name, name));
  }
}

/// Adds a note for each held-out set of labelled examples with a single class or less than half of
/// the classes, although it has enough examples: its file was probably cut from a sorted file.
void note_missing_classes(Corpus& corpus) {
  const std::size_t classes = corpus.target_vocabulary.size() - first_word_id;
  for (const auto& [name, examples] :
       {std::pair("validation", &corpus.validation), std::pair("test", &corpus.test)}) {
    std::set<std::int32_t> found;
    for (const Example& example : *examples) found.insert(example.target.front());
    const bool has_enough_classes = found.size() > 1 && 2 * found.size() >= classes;
    if (classes < 2 || examples->size() < 10 * classes || has_enough_classes) continue;
    corpus.notes.push_back(fmt::format(
        "warning: the {} set has {} of {} classes; if the examples were sorted by label, "
        "shuffle them before dividing them into sets",
        name, found.size(), classes));
  }
}

/// The size of the training text of a task in bytes. Files that cannot be read count as 0 bytes.
std::uint64_t measure_training_text(const DataOptions& options) {
  std::uint64_t bytes = 0;
  for (const FileList* files :
       {&options.pairs.train_source, &options.pairs.train_target, &options.text.train_text}) {
    for (const std::string& file : files->names()) {
      std::error_code error;
      const auto size = std::filesystem::file_size(file, error);
      if (!error) bytes += size;
    }
  }
  return bytes;
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
  note_equal_files(corpus);
  note_equal_sides(corpus);
  if (source.has_classes) note_missing_classes(corpus);
  return corpus;
}

TextCodec make_codec(const DataOptions& options, Vocabulary source_vocabulary,
                     Vocabulary target_vocabulary) {
  TextFormat format = data_source(options).format(options, source_vocabulary, target_vocabulary);
  return TextCodec(std::move(format), std::move(source_vocabulary), std::move(target_vocabulary));
}

bool uses_cache(const DataOptions& options) {
  const auto& keys = data_source(options).kind.keys;
  const bool has_key = std::ranges::find(keys, "data.cache") != keys.end();
  return has_key && is_cached(options.training, measure_training_text(options));
}

}  // namespace tapestry
