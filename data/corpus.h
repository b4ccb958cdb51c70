// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/examples.h"
#include "data/text/vocabulary.h"

namespace tapestry {

struct TextContent;  // defined in data/io/text_file.h

/// A file that a corpus was read from, with its size and digest when it was read.
struct DataFile {
  std::string key;             ///< config key such as "data.train_source", or label_file_key()
  std::filesystem::path path;  ///< path that was opened
  std::uint64_t bytes;         ///< size of the file
  std::uint64_t digest;        ///< XXH3 (64 bits) of its content

  friend bool operator==(const DataFile&, const DataFile&) = default;
};

/// Size and XXH3 digest of a file.
struct FileDigest {
  std::uint64_t bytes = 0;   ///< size of the file
  std::uint64_t digest = 0;  ///< XXH3 (64 bits) of its content

  bool operator==(const FileDigest&) const = default;  ///< Compares member by member.
};

/// Identifies the data that a model was trained on.
struct DataIdentity {
  std::uint64_t fingerprint = 0;              ///< fingerprint of the corpus
  std::map<std::string, FileDigest> files{};  ///< digests by config key; empty for generated data
};

/// Returns the DataFile key of the label file that belongs to the image file with this config key.
std::string label_file_key(const std::string& config_key);

/// Returns the DataFile key of file `number` (from 0) in the list with this config key.
std::string list_file_key(const std::string& config_key, std::size_t number);

/// Returns the config key that a DataFile key belongs to.
std::string config_key(const std::string& file_key);

/// Files and line numbers of the examples in one part of a corpus, for messages. Empty for examples
/// that are not lines of a text: generated examples, windows and images.
struct ExampleLines {
  std::string source_file{};         ///< name of the source file, escaped
  std::string target_file{};         ///< name of the target file; may equal source_file
  std::vector<std::size_t> lines{};  ///< first line of each example, from 1
  /// References of held-out pairs for scoring translations, exactly as in the file. If empty, the
  /// target ids are decoded instead.
  std::vector<std::string> target_texts{};
};

/// Names of the files of one training corpus, escaped for messages.
struct LineFiles {
  std::string source;  ///< name of the source file
  std::string target;  ///< name of the target file; may equal `source`
};

/// The training, validation and test data of a run.
struct Corpus {
  std::vector<Example> train;       ///< empty if the training set is in `train_file`
  std::vector<Example> validation;  ///< may be empty
  std::vector<Example> test;        ///< may be empty
  ExampleLines train_lines;         ///< lines of the examples in `train`
  ExampleLines validation_lines;    ///< lines of the examples in `validation`
  ExampleLines test_lines;          ///< lines of the examples in `test`
  Vocabulary source_vocabulary;     ///< vocabulary of Example::source
  Vocabulary target_vocabulary;     ///< vocabulary of Example::target, or class names
  std::vector<DataFile> files;      ///< in the order of the config; empty for generated data
  std::uint64_t fingerprint = 0;    ///< fingerprint() of the data above, set by load_corpus()
  std::vector<std::string> notes;   ///< log lines about skipped examples and doubtful options
  /// The training examples, if they are not in memory; train_lines.lines is then empty.
  std::shared_ptr<const ExampleFile> train_file{};
  std::vector<std::uint32_t> train_kept{};        ///< indices in `train_file`; if empty: all
  std::vector<WeightedExamples> train_weights{};  ///< weights of the corpora; if empty: all 1
  std::vector<LineFiles> train_line_files{};      ///< by corpus; the files of train_lines if empty

  /// The training set with its weights. Empty only for a trained model without its training files.
  /// Valid as long as the corpus exists.
  Examples training() const;
  /// All stored training examples, ignoring train_weights and train_kept.
  Examples stored_training() const;
  /// Removes the training set.
  void clear_training();
};

/// The vocabularies of a trained model, for encoding other data.
struct FixedVocabularies {
  Vocabulary source;                 ///< vocabulary of Example::source
  std::optional<Vocabulary> target;  ///< nullopt if it is to be made from the data
};

/// XXH3 (64 bits) of all examples and both vocabularies, with their subword models: equal for equal
/// data and almost certainly different for different data. File names and notes are not included:
/// the same text in a file with a different name has the same fingerprint.
std::uint64_t fingerprint(const Corpus& corpus);

/// Returns corpus.fingerprint and the digests of corpus.files.
DataIdentity identify(const Corpus& corpus);

/// Reads the lines of a text file and adds the file to corpus.files under the config key `key`.
///
/// throws  DataError like read_text_file(); the hint names the key if the file cannot be opened.
std::vector<std::string> read_corpus_lines(const std::string& key,
                                           const std::filesystem::path& path, Corpus& corpus,
                                           const TextContent& content);

/// Reads a binary file and adds it to corpus.files under the config key `key`.
///
/// hint    hint of the error if the file cannot be opened; if empty, the hint names the key
/// throws  DataError like read_binary_file()
std::vector<std::byte> read_corpus_bytes(const std::string& key, const std::filesystem::path& path,
                                         Corpus& corpus, const std::string& hint = {});

}  // namespace tapestry
