#include "data/corpus.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "data/io/error.h"
#include "data/io/file.h"
#include "data/io/text_file.h"

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

  void add(const std::vector<std::int32_t>& ids) {
    add_length(ids.size());
    hash_.add(ids.data(), ids.size() * sizeof(std::int32_t));
  }

  void add(const std::vector<float>& values) {
    add_length(values.size());
    hash_.add(values.data(), values.size() * sizeof(float));
  }

  void add(const std::vector<Example>& examples) {
    add_length(examples.size());
    for (const Example& example : examples) {
      add(example.source);
      add(example.target);
      if (!example.pixels.empty()) add(example.pixels);
    }
  }

  std::uint64_t value() const { return hash_.value(); }

 private:
  void add_length(std::uint64_t length) { hash_.add(&length, sizeof(length)); }

  Xxh3 hash_;
};

/// Returns read(path). If the file cannot be opened, the error has the given hint; if that is
/// empty, the hint names the config key.
auto read_file(const std::string& key, const std::filesystem::path& path, auto read,
               const std::string& hint = {}) {
  try {
    return read(path);
  } catch (const UnopenedFile& error) {
    throw DataError(error.what(),
                    hint.empty() ? fmt::format("{} (the key is {})", error.hint(), key) : hint);
  }
}

}  // namespace

std::string label_file_key(const std::string& config_key) {
  return config_key + std::string(label_suffix);
}

std::string config_key(const std::string& file_key) {
  const bool labels = file_key.ends_with(label_suffix);
  return labels ? file_key.substr(0, file_key.size() - label_suffix.size()) : file_key;
}

std::uint64_t fingerprint(const Corpus& corpus) {
  Fingerprint hash;
  hash.add(corpus.train);
  hash.add(corpus.validation);
  hash.add(corpus.test);
  hash.add(corpus.source_vocabulary.to_text());
  hash.add(corpus.target_vocabulary.to_text());
  return hash.value();
}

DataIdentity identify(const Corpus& corpus) {
  DataIdentity data{.fingerprint = corpus.fingerprint};
  for (const DataFile& file : corpus.files) data.files[file.key] = {file.bytes, file.digest};
  return data;
}

std::vector<std::string> read_corpus_lines(const std::string& key,
                                           const std::filesystem::path& path, Corpus& corpus) {
  return read_corpus_lines(key, path, corpus, TextContent());
}

std::vector<std::string> read_corpus_lines(const std::string& key,
                                           const std::filesystem::path& path, Corpus& corpus,
                                           const TextContent& content) {
  TextFile file = read_file(
      key, path, [&](const std::filesystem::path& each) { return read_text_file(each, content); });
  corpus.files.push_back({key, path, file.bytes, file.digest});
  return std::move(file.lines);
}

std::vector<std::byte> read_corpus_bytes(const std::string& key, const std::filesystem::path& path,
                                         Corpus& corpus, const std::string& hint) {
  BinaryFile file = read_file(key, path, read_binary_file, hint);
  corpus.files.push_back({key, path, file.bytes.size(), file.digest});
  return std::move(file.bytes);
}

}  // namespace tapestry
