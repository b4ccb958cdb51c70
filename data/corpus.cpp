// SPDX-License-Identifier: BSD-3-Clause
#include "data/corpus.h"

#include <fmt/format.h>

#include <span>
#include <string_view>
#include <utility>

#include "data/example_file.h"
#include "data/io/error.h"
#include "data/io/file.h"
#include "data/io/text_file.h"
#include "data/text/subwords.h"

namespace tapestry {

namespace {

constexpr std::string_view label_suffix = ".labels";

/// XXH3 of a sequence of parts. The length of each part is hashed before it, so that different
/// divisions of the same bytes have different hashes.
class Fingerprint {
 public:
  void add(std::string_view text) {
    add_length(text.size());
    hash_.add(text.data(), text.size());
  }

  template <class T>
  void add(const std::vector<T>& values) {
    add_length(values.size());
    hash_.add(values.data(), values.size() * sizeof(T));
  }

  void add(const Examples& examples) {
    add_length(examples.size());
    examples.for_each([this](const Example& example) {
      add(example.source);
      add(example.target);
      if (!example.pixels.empty()) add(example.pixels);
    });
  }

  std::uint64_t value() const { return hash_.value(); }

 private:
  void add_length(std::uint64_t length) { hash_.add(&length, sizeof(length)); }

  Xxh3 hash_;
};

}  // namespace

std::string label_file_key(const std::string& config_key) {
  return config_key + std::string(label_suffix);
}

std::string list_file_key(const std::string& config_key, std::size_t number) {
  return number == 0 ? config_key : fmt::format("{}[{}]", config_key, number + 1);
}

std::string config_key(const std::string& file_key) {
  if (file_key.ends_with(']')) return file_key.substr(0, file_key.rfind('['));
  const bool labels = file_key.ends_with(label_suffix);
  return labels ? file_key.substr(0, file_key.size() - label_suffix.size()) : file_key;
}

Examples Corpus::training() const {
  if (train_file) return Examples(*train_file, train_kept, train_weights);
  return Examples(std::span(train), train_weights);
}

void Corpus::clear_training() {
  train.clear();
  train_lines = {};
  train_file.reset();
  train_kept.clear();
  train_weights.clear();
  train_line_files.clear();
}

Examples Corpus::stored_training() const {
  return train_file ? Examples(*train_file) : Examples(train);
}

std::uint64_t fingerprint(const Corpus& corpus) {
  Fingerprint hash;
  hash.add(corpus.stored_training());
  hash.add(Examples(corpus.validation));
  hash.add(Examples(corpus.test));
  hash.add(corpus.source_vocabulary.to_text());
  hash.add(corpus.target_vocabulary.to_text());
  for (const Vocabulary* words : {&corpus.source_vocabulary, &corpus.target_vocabulary}) {
    if (words->subwords()) hash.add(words->subwords()->serialized());
  }
  return hash.value();
}

DataIdentity identify(const Corpus& corpus) {
  DataIdentity data{.fingerprint = corpus.fingerprint};
  for (const DataFile& file : corpus.files) data.files[file.key] = {file.bytes, file.digest};
  return data;
}

std::vector<std::string> read_corpus_lines(const std::string& key,
                                           const std::filesystem::path& path, Corpus& corpus,
                                           const TextContent& content) {
  TextFile file = with_key_in_hint(key, [&] { return read_text_file(path, content); });
  corpus.files.push_back({key, path, file.bytes, file.digest});
  return std::move(file.lines);
}

std::vector<std::byte> read_corpus_bytes(const std::string& key, const std::filesystem::path& path,
                                         Corpus& corpus, const std::string& hint) {
  BinaryFile file = with_key_in_hint(
      key, [&] { return read_binary_file(path); }, hint);
  corpus.files.push_back({key, path, file.bytes.size(), file.digest});
  return std::move(file.bytes);
}

}  // namespace tapestry
