// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/corpus.h"
#include "data/file_list.h"
#include "data/io/text_file.h"
#include "data/text/subwords.h"
#include "data/text/vocabulary.h"

namespace tapestry {

/// A text file of a corpus, read line by line in bounded memory. It may be read several times, but
/// its content must not change.
class CorpusText {
 public:
  /// key      key of the file in Corpus::files
  /// content  expected content
  CorpusText(std::string key, std::filesystem::path path, const TextContent& content = {});

  /// The name of the file for messages, escaped.
  const std::string& name() const { return name_; }

  /// The current size of the file in bytes; 0 if it cannot be determined.
  std::uint64_t size_now() const;

  /// Allows the file to be larger than the memory of the machine.
  void allow_any_size() { content_.any_size = true; }

  /// One pass over the lines.
  class Lines {
   public:
    /// The next line; nullopt at the end.
    ///
    /// throws  DataError like TextFileReader::next(), and if the file differs from an earlier pass.
    std::optional<std::string> next();
    /// Number of the line that next() last returned, from 1.
    std::size_t number() const { return reader_.line_number(); }

   private:
    friend class CorpusText;
    explicit Lines(CorpusText& text);

    CorpusText& text_;
    TextFileReader reader_;
  };

  /// Begins a pass. Throws DataError like TextFileReader; if the file cannot be opened, the hint
  /// names the key.
  Lines lines();

  /// Calls f(line, number) for each line.
  void for_each_line(const std::function<void(std::string line, std::size_t number)>& f);

  /// Returns the size and digest of the file. Reads the file unless an earlier pass has computed
  /// them.
  ///
  /// throws  DataError like lines().
  const FileDigest& digest();

  /// Adds the file to corpus.files, after a pass or digest().
  void record(Corpus& corpus) const;

 private:
  void found(const FileDigest& digest);

  std::string key_;
  std::filesystem::path path_;
  TextContent content_;
  std::string name_;
  std::optional<FileDigest> digest_;
};

/// Returns a text for each file of a list. For an empty list, returns one text that cannot be
/// opened, so that the error names the key.
///
/// key  config key of the list
std::vector<CorpusText> list_texts(const std::string& key, const FileList& files,
                                   const std::filesystem::path& base, const TextContent& content);

/// A uniform random sample of the sentences of a text, for learning subwords from a text that may
/// be larger than memory. Keeps all sentences if they fit. The sample is deterministic.
///
/// Each sentence gets a random number, and the sentences with the smallest numbers that fit are
/// kept ("bottom-k" sampling). A sentence that is larger than the limit is left out.
class TextSample {
 public:
  /// Default memory limit of a sample in bytes; SentencePiece needs additional memory to train.
  static constexpr std::size_t default_limit = std::size_t{1} << 28;
  /// Memory in bytes that a sentence needs in addition to its text.
  static constexpr std::size_t bytes_per_sentence = 64;

  TextSample() = default;
  /// limit  maximum bytes of the texts plus `bytes_per_sentence` for each sentence
  explicit TextSample(std::size_t limit) : limit_(limit) {}

  /// Adds the next sentence of the text.
  void add(std::string sentence);

  /// Whether the sample leaves out sentences.
  bool is_partial() const { return kept_.size() < added_; }
  std::uint64_t added() const { return added_; }
  std::size_t kept() const { return kept_.size(); }

  /// The sentences, in the order of the text.
  std::vector<std::string> take() &&;

 private:
  struct Sentence {
    std::uint64_t random;
    std::uint64_t number;  ///< number of the sentence in the text
    std::string text;

    std::size_t bytes() const { return text.size() + bytes_per_sentence; }
    bool operator<(const Sentence& other) const {
      return random != other.random ? random < other.random : number < other.number;
    }
  };

  std::size_t limit_ = default_limit;
  std::size_t bytes_ = 0;
  std::uint64_t added_ = 0;
  bool has_evicted_ = false;    ///< whether a sentence within the limit was left out
  std::vector<Sentence> kept_;  ///< a heap; the first sentence has the largest random number
};

/// Reads a .model file of SentencePiece like read_corpus_bytes().
///
/// throws  DataError like read_corpus_bytes(); FileError if the file has more than 256 MiB. The
///         largest models that people use have 6 MB.
std::vector<std::byte> read_subword_file(const std::string& key, const std::filesystem::path& path,
                                         Corpus& corpus);

/// The side of a corpus that a subword model tokenizes.
enum class SubwordSide {
  source,  ///< sources, or both sides if they share a vocabulary: SubwordOptions::file
  target   ///< targets with a separate vocabulary: SubwordOptions::target_file
};

/// The subword model of a corpus: read from the file in words.subwords, relative to `base`, or
/// trained on the sentences, lowercased if words.lowercase is set. The file is not added to
/// Corpus::files, because the fingerprint covers its content and a trained model does not need it.
///
/// sentences  sentences of the training set; empty if the model is read from a file
/// place      origin of the sentences in messages, such as a file name
/// notes      receives a line if the model is trained on only some of the sentences
/// throws     DataError like SubwordModel, train_subwords() and read_binary_file().
std::shared_ptr<const SubwordModel> make_subwords(TextSample sentences, const WordOptions& words,
                                                  SubwordSide side,
                                                  const std::filesystem::path& base,
                                                  const std::string& place,
                                                  std::vector<std::string>& notes);

}  // namespace tapestry
